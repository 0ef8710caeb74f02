"""Forms of elicitation: defaults filled in, answers checked against the requested schema.

A requested schema is one flat object of primitive fields, so checking it needs no general validator
(specification, client: elicitation, requested schema).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, final
from urllib.parse import urlsplit

import attrs

from .convert import UNSET

if TYPE_CHECKING:
    from ..types import RequestedSchema

__all__ = ["UrlDescription", "check_content", "describe_url", "with_defaults"]


def with_defaults(schema: RequestedSchema, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the schema's default for each field that was left out."""
    filled = dict(content)
    for name, field in schema.properties.items():
        default = getattr(field, "default", UNSET)
        if name not in filled and default is not UNSET:
            filled[name] = list(default) if isinstance(default, tuple) else default
    return filled


def check_content(schema: RequestedSchema, content: Mapping[str, Any]) -> list[str]:
    """What is wrong with an answer, a sentence a problem, each starting with the field's name."""
    problems = [f"{name}: is required" for name in schema.required or () if name not in content]
    for name, value in content.items():
        field = schema.properties.get(name)
        if field is None:
            problems.append(f"{name}: is no field of the form")
        else:
            problems += [f"{name}: {problem}" for problem in _check_field(field, value)]
    return problems


def _check_field(field: Any, value: Any) -> list[str]:
    options = getattr(field, "options", None)
    kind = getattr(field, "type", None)
    if kind == "array":
        return _check_choices(field, value, options)
    if options is not None:
        allowed = [option.const for option in options]
        return [] if value in allowed else [f"must be one of {', '.join(map(repr, allowed))}"]
    if kind == "boolean":
        return [] if isinstance(value, bool) else ["must be true or false"]
    if kind in ("number", "integer"):
        return _check_number(field, value, whole=kind == "integer")
    if kind == "string":
        return _check_string(field, value)
    return []  # a kind that this version does not know is the server's to judge


def _check_choices(field: Any, value: Any, options: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        return ["must be a list of strings"]
    allowed = [option.const for option in options or ()]
    problems = [
        f"choice {number} is none of {', '.join(map(repr, allowed))}"
        for number, item in enumerate(value, 1)
        if item not in allowed
    ]
    if field.min_items is not UNSET and len(value) < field.min_items:
        problems.append(f"needs at least {field.min_items}")
    if field.max_items is not UNSET and len(value) > field.max_items:
        problems.append(f"takes at most {field.max_items}")
    return problems


def _check_number(field: Any, value: Any, *, whole: bool) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ["must be a whole number" if whole else "must be a number"]
    if isinstance(value, float) and not math.isfinite(value):
        return ["must be finite"]
    problems = []
    if whole and value != int(value):
        problems.append("must be a whole number")
    if field.minimum is not UNSET and value < field.minimum:
        problems.append(f"must be at least {field.minimum}")
    if field.maximum is not UNSET and value > field.maximum:
        problems.append(f"must be at most {field.maximum}")
    return problems


def _check_string(field: Any, value: Any) -> list[str]:
    if not isinstance(value, str):
        return ["must be a text"]
    problems = []
    if field.min_length is not UNSET and len(value) < field.min_length:
        problems.append(f"needs at least {field.min_length} characters")
    if field.max_length is not UNSET and len(value) > field.max_length:
        problems.append(f"takes at most {field.max_length} characters")
    if field.format is not UNSET and not _has_format(value, field.format):
        problems.append(f"is no {field.format}")
    return problems


_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")

# RFC 3339 has fewer forms than fromisoformat reads.
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _has_format(value: str, name: str) -> bool:
    if name == "email":
        return _EMAIL.fullmatch(value) is not None
    if name == "uri":
        try:
            return bool(urlsplit(value).scheme) and not any(map(str.isspace, value))
        except ValueError:
            return False
    try:
        if name == "date":
            return _DATE.fullmatch(value) is not None and bool(date.fromisoformat(value))
        if name == "date-time":
            value = value.upper()
            return _TIME.fullmatch(value) is not None and bool(datetime.fromisoformat(value))
    except ValueError:
        return False
    return True


@final
@attrs.frozen
class UrlDescription:
    """What a person should see before consenting to visit a page (client: elicitation, safe URL handling).

    Attributes:
        url: the whole address, unchanged.
        host: the host in it, which is what to highlight; empty when there is none.
        warnings: why the host may be not what it seems, a sentence each.
    """

    url: str
    host: str
    warnings: tuple[str, ...]


def describe_url(url: str) -> UrlDescription:
    """Take an address apart for display.  Nothing is fetched."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return UrlDescription(url, "", ("the address cannot be read",))
    warnings = []
    if parts.scheme != "https":
        warnings.append(f"the scheme is {parts.scheme or 'missing'}, not https")
    if not host:
        warnings.append("the address has no host")
    if "\\" in url or not url.isprintable() or " " in url:
        warnings.append("it holds characters that browsers read in ways of their own")
    if parts.username is not None:
        warnings.append("a user name stands before the host")
    if any(label.startswith("xn--") for label in host.split(".")):
        warnings.append("the host is written in Punycode, and may look like another one")
    scripts = {_script(character) for character in host if character.isalpha()}
    if len(scripts) > 1:
        warnings.append(f"the host mixes scripts: {', '.join(sorted(scripts))}")
    elif scripts - {"LATIN"}:
        warnings.append("the host is not written in Latin letters")
    return UrlDescription(url, host, tuple(warnings))


def _script(character: str) -> str:
    return unicodedata.name(character, "UNKNOWN").partition(" ")[0]
