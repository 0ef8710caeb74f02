"""What is installed: metadata, the typing marker, the command, and the contents of the wheel."""

from __future__ import annotations

import email.parser
import importlib.metadata
import importlib.resources
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from hatchling.build import build_wheel

import trio_mcp_stdio

ROOT = Path(__file__).parent.parent
NAME = "trio_mcp_stdio"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel that the build back end makes of this tree, in this process and without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return zipfile.ZipFile(folder / build_wheel(str(folder)))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    """The core metadata within the wheel."""
    (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.parser.Parser().parsestr(wheel.read(path).decode())


def test_the_installed_version_is_the_one_in_the_source() -> None:
    assert trio_mcp_stdio.__version__ == importlib.metadata.version(NAME)


def test_the_typing_marker_is_installed() -> None:
    assert importlib.resources.files(NAME).joinpath("py.typed").is_file()


def test_the_command_is_installed_and_loads() -> None:
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="trio-mcp")

    assert command.value == "trio_mcp_stdio._cli:main"
    assert callable(command.load())


def test_the_wheel_holds_every_source_file_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    source = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / NAME).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert packed == source
    assert f"{NAME}/py.typed" in packed


def test_the_metadata_of_the_wheel(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert metadata["Name"] == NAME
    assert metadata["Version"] == trio_mcp_stdio.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())
    extras = {"cli", "validate", "otel", "test", "dev", "docs", "trio-typing"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras


def test_only_four_packages_are_needed_at_run_time(metadata: Message) -> None:
    needed = {
        line.partition(">")[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line
    }

    assert needed == {"trio", "attrs", "cattrs", "msgspec"}


def test_trio_typing_belongs_to_an_extra_of_its_own(metadata: Message) -> None:
    requiring = [line for line in metadata.get_all("Requires-Dist", []) if line.startswith("trio-typing")]

    assert len(requiring) == 1
    assert "extra == 'trio-typing'" in requiring[0]
