"""Form of the three members of `_meta` that carry a trace: `traceparent`, `tracestate` and `baggage`.

The forms are those of W3C Trace Context and W3C Baggage.
"""

from __future__ import annotations

import re
from typing import Final

from .._errors import LocalProtocolError

__all__ = ["BAGGAGE", "TRACEPARENT", "TRACESTATE", "TRACE_KEYS", "check_trace_member", "is_trace_member"]

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
BAGGAGE: Final = "baggage"

TRACE_KEYS: Final = frozenset({TRACEPARENT, TRACESTATE, BAGGAGE})

_PARENT: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    r"(?P<more>-[!-~]*)?"
)
_STATE_MEMBER: Final = re.compile(r"(?P<key>[a-z0-9][a-z0-9_*/@-]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE: Final = r"[!#-+\--:<-\[\]-~]*"
_PAIR: Final = re.compile(rf"{_TOKEN}[ \t]*=[ \t]*{_VALUE}")
_PROPERTY: Final = re.compile(rf"{_TOKEN}(?:[ \t]*=[ \t]*{_VALUE})?")

_STATE_MEMBERS: Final = 32

_EXPECTED: Final = {
    TRACEPARENT: "version-trace id-parent id-flags in lower-case hexadecimal digits",
    TRACESTATE: f"at most {_STATE_MEMBERS} members key=value, separated by commas, no key twice",
    BAGGAGE: "members key=value;property, separated by commas, percent-encoded where need be",
}


def check_trace_member(key: str, value: object) -> None:
    """Check one of the three members.

    Raises:
        LocalProtocolError: it does not have the form that the W3C gives it.
    """
    if not is_trace_member(key, value):
        raise LocalProtocolError(f"_meta.{key}: {value!r:.80} is not of its form: {_EXPECTED[key]}")


def is_trace_member(key: str, value: object) -> bool:
    """Whether a value of one of the three members has its form."""
    if not isinstance(value, str):
        return False
    if key == TRACEPARENT:
        found = _PARENT.fullmatch(value)
        return found is not None and not (found["version"] == "00" and found["more"])
    if key == TRACESTATE:
        return _is_state(value)
    return all(_is_baggage_member(member.strip(" \t")) for member in value.split(","))


def _is_state(value: str) -> bool:
    members = [member for each in value.split(",") if (member := each.strip(" \t"))]
    found = [_STATE_MEMBER.fullmatch(member) for member in members]
    keys = {match["key"] for match in found if match is not None}
    return len(members) <= _STATE_MEMBERS and len(keys) == len(members)


def _is_baggage_member(member: str) -> bool:
    pair, *properties = (part.strip(" \t") for part in member.split(";"))
    return _PAIR.fullmatch(pair) is not None and all(_PROPERTY.fullmatch(each) for each in properties)
