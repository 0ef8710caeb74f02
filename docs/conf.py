"""Sphinx configuration: `python -m sphinx -W docs docs/_build`."""

from __future__ import annotations

from trio_mcp_stdio import __version__

project = "trio_mcp_stdio"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "changes"]
default_role = "code"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
suppress_warnings = ["ref.python"]  # fields of some messages are named like built-in types
