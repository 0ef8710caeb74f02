"""Grammar of `_meta` keys."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp_stdio._errors import LocalProtocolError
from trio_mcp_stdio._wire.meta import check_meta_key, is_reserved_meta_prefix

LETTERS = string.ascii_letters
ALPHANUMERIC = LETTERS + string.digits


def framed(first: str, inner: str, last: str) -> st.SearchStrategy[str]:
    """Strings whose ends and inside come from different alphabets."""
    long = st.builds(
        lambda a, b, c: a + b + c, st.sampled_from(first), st.text(inner, max_size=6), st.sampled_from(last)
    )
    return st.sampled_from(first) | long


labels = framed(LETTERS, ALPHANUMERIC + "-", ALPHANUMERIC)
prefixes = st.lists(labels, min_size=1, max_size=4).map(lambda parts: ".".join(parts) + "/")
names = st.just("") | framed(ALPHANUMERIC, ALPHANUMERIC + "-_.", ALPHANUMERIC)


@pytest.mark.requirement("META-14", "META-15")
@given(prefix=st.just("") | prefixes, name=names)
def test_keys_built_by_the_grammar_are_accepted(prefix: str, name: str) -> None:
    assert prefix + name == check_meta_key(prefix + name)


@pytest.mark.requirement("META-14")
@pytest.mark.parametrize("key", ["com.example/x", "a-b.c/x", "a/x", "A1.b--2/x", "io.modelcontextprotocol/x"])
def test_well_formed_prefixes(key: str) -> None:
    assert key == check_meta_key(key)


@pytest.mark.requirement("META-14")
@pytest.mark.parametrize(
    "key",
    ["1a/x", "a-/x", "-a/x", "a..b/x", "/x", ".a/x", "a./x", "a_b/x", "a b/x", "é.fr/x", "a/b/c", "a.1/x"],
)
def test_malformed_prefixes_are_refused(key: str) -> None:
    with pytest.raises(LocalProtocolError, match="_meta key"):
        check_meta_key(key)


@pytest.mark.requirement("META-15")
@pytest.mark.parametrize("key", ["a.b-c_d", "x", "0", "com.example/", "com.example/a.b-c_d", "progressToken"])
def test_well_formed_names(key: str) -> None:
    assert key == check_meta_key(key)


@pytest.mark.requirement("META-15")
@pytest.mark.parametrize(
    "key", ["_a", "a-", "a b", ".a", "a_", "-", "a\n", "naïve", "com.example/_a", "com.example/a-"]
)
def test_malformed_names_are_refused(key: str) -> None:
    with pytest.raises(LocalProtocolError, match="_meta key"):
        check_meta_key(key)


@pytest.mark.requirement("META-15")
@given(name=names.filter(bool), bad=st.sampled_from("-_. é\n/"))
def test_names_must_end_alphanumeric(name: str, bad: str) -> None:
    for key in (bad + name, "com.example/" + name + bad):
        with pytest.raises(LocalProtocolError):
            check_meta_key(key)


@pytest.mark.parametrize("key", [None, 1, b"a", ("a",)])
def test_a_key_is_a_string(key: object) -> None:
    with pytest.raises(LocalProtocolError):
        check_meta_key(key)


@pytest.mark.requirement("META-17")
@pytest.mark.parametrize(
    "key", ["io.modelcontextprotocol/", "dev.mcp/", "com.mcp.tools/", "com.mcp.tools/name"]
)
def test_reserved_prefixes(key: str) -> None:
    assert is_reserved_meta_prefix(key)


@pytest.mark.requirement("META-17")
@pytest.mark.parametrize(
    "key", ["com.example.mcp/", "mcp/x", "com.mcpx/", "com.mcp", "traceparent", "", "mcp.com/x"]
)
def test_free_prefixes(key: str) -> None:
    assert not is_reserved_meta_prefix(key)
