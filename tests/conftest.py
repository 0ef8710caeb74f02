"""Options and plugins of the whole suite."""

from __future__ import annotations

import hypothesis
import pytest

pytest_plugins = ("pytester", "tests.conformance")

# A loaded machine must not fail an example for being slow; whatever hypothesis chooses under CI stays.
hypothesis.settings.register_profile("patient", hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_report_header(config: pytest.Config) -> str:
    return "slow tests: " + ("run" if config.getoption("--slow") else "left out (--slow runs them)")
