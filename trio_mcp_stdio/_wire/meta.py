"""Grammar of `_meta` keys: an optional prefix of dot-separated labels and a slash, then a name."""

from __future__ import annotations

import re
from typing import Final

from .._errors import LocalProtocolError

__all__ = ["check_meta_key", "is_reserved_meta_prefix"]

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_KEY: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?{_NAME}")
_RESERVED: Final = frozenset({"mcp", "modelcontextprotocol"})


def check_meta_key(key: object) -> str:
    """Return the key if it is well formed.

    Raises:
        LocalProtocolError: it is not a string, or breaks the grammar.
    """
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise LocalProtocolError(
            f"{key!r:.80} is not a valid _meta key: expected a name of letters, digits, '-', '_' and '.', "
            "alphanumeric at both ends, optionally after a prefix such as 'com.example/'"
        )
    return key


def is_reserved_meta_prefix(key: str) -> bool:
    """Whether a key, or a prefix with its slash, lies in the part that the protocol keeps for itself.

    That is where the second label of the prefix is `mcp` or `modelcontextprotocol`.
    """
    prefix, slash, _ = key.partition("/")
    labels = prefix.split(".")
    return bool(slash) and len(labels) > 1 and labels[1] in _RESERVED
