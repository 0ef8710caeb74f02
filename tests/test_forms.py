"""Forms of elicitation and addresses to visit, without any connection."""

from __future__ import annotations

import math
from typing import Any

import pytest

from trio_mcp_stdio import UrlDescription, describe_url
from trio_mcp_stdio._wire.codec import structure, unstructure
from trio_mcp_stdio._wire.forms import check_content, with_defaults
from trio_mcp_stdio.types import RequestedSchema

ENUMS: dict[str, dict[str, Any]] = {
    "untitled": {"type": "string", "enum": ["a", "b"]},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
    "legacy": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
    "untitled-multi": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    "titled-multi": {
        "type": "array",
        "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
    },
}


def schema(required: list[str] | None = None, **fields: Any) -> RequestedSchema:
    wire = {"type": "object", "properties": fields} | ({} if required is None else {"required": required})
    return structure(RequestedSchema, wire, method="elicitation/create")


def problems(field: dict[str, Any], value: Any) -> list[str]:
    return check_content(schema(f=field), {"f": value})


# defaults


@pytest.mark.requirement("ELIC-09")
def test_defaults_of_all_kinds_fill_what_was_left_out() -> None:
    form = schema(
        s={"type": "string", "default": "x"},
        i={"type": "integer", "default": 3},
        n={"type": "number", "default": 1.5},
        yes={"type": "boolean", "default": True},
        no={"type": "boolean", "default": False},
        empty={"type": "string", "default": ""},
        e={**ENUMS["untitled"], "default": "b"},
        m={**ENUMS["titled-multi"], "default": ["a"]},
        none={"type": "string"},
        given={"type": "string", "default": "x"},
    )

    filled = with_defaults(form, {"given": "mine"})
    assert filled == {
        "s": "x",
        "i": 3,
        "n": 1.5,
        "yes": True,
        "no": False,
        "empty": "",
        "e": "b",
        "m": ["a"],
        "given": "mine",
    }
    assert type(filled["i"]) is int
    assert check_content(form, filled) == []


# checks


@pytest.mark.requirement("ELIC-11")
def test_missing_and_unknown_fields_are_named() -> None:
    form = schema(["a"], a={"type": "string"}, b={"type": "string"})

    assert check_content(form, {"a": "", "b": ""}) == []
    assert check_content(form, {"c": 1}) == ["a: is required", "c: is no field of the form"]


TEXT = {"type": "string", "minLength": 2, "maxLength": 3}
INTEGER = {"type": "integer", "minimum": -1, "maximum": 10}
NUMBER = {"type": "number", "minimum": 0.5, "maximum": 1}
SEVERAL = {**ENUMS["untitled-multi"], "minItems": 1, "maxItems": 1}


@pytest.mark.requirement("ELIC-11", "ELIC-21")
@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (TEXT, ["ab", "\U0001f600\U0001f600\U0001f600"], ["a", "abcd", 1, None, True, ["ab"]]),
        (INTEGER, [-1, 10, 3.0], [-2, 11, 1.5, "x", True, None, math.inf, math.nan, 10**400]),
        (NUMBER, [0.5, 1], [0, 2, "1", True, math.nan, -math.inf]),
        ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
        (ENUMS["untitled"], ["a", "b"], ["c", "A", 1, ["a"]]),
        (ENUMS["titled"], ["a", "b"], ["A", "c", None]),
        (ENUMS["legacy"], ["a", "b"], ["A", "c"]),
        (ENUMS["untitled-multi"], [[], ["a", "b"], ("a",)], ["a", ["c"], [1], None]),
        (ENUMS["titled-multi"], [["b"], []], [["A"], "b", {"a": 1}]),
        (SEVERAL, [["a"]], [[], ["a", "b"]]),
        ({"type": "string", "format": "email"}, ["a@b.c"], ["a", "a@", "a b@c", "a@b@c"]),
        ({"type": "string", "format": "uri"}, ["https://a.b/c", "urn:x"], ["a", "/b", "http://[", "a: b"]),
        (
            {"type": "string", "format": "date"},
            ["2024-02-29"],
            ["2023-02-29", "20240229", "2024-W01-1", "2024-02-29T00:00:00Z", "today"],
        ),
        (
            {"type": "string", "format": "date-time"},
            ["2024-02-29T23:59:59Z", "2024-02-29t23:59:59.25z", "2024-02-29T00:00:00+01:00"],
            ["2024-02-29", "2024-02-29T25:00:00Z", "2024-02-29T00:00:00", "2024-02-29T00:00Z", "now"],
        ),
        ({"type": "string", "format": "zip-code"}, ["anything"], [1]),
        ({"type": "object"}, [{"nested": 1}, "anything"], []),  # for the server to judge
    ],
    ids=lambda value: value.get("format", value.get("type")) if isinstance(value, dict) else "",
)
def test_values_are_checked_by_the_kind_of_their_field(
    field: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    assert [value for value in good if problems(field, value)] == []
    assert [value for value in bad if not problems(field, value)] == []
    assert all(problem.startswith("f: ") for value in bad for problem in problems(field, value))


@pytest.mark.requirement("ELIC-21")
@pytest.mark.parametrize("field", ENUMS.values(), ids=ENUMS)
def test_all_shapes_of_enumerations_are_read_and_kept(field: dict[str, Any]) -> None:
    form = schema(f=field)

    options: Any = form.properties["f"]
    assert [option.const for option in options.options] == ["a", "b"]
    assert unstructure(form) == {"type": "object", "properties": {"f": field}}


def test_no_problem_repeats_what_was_entered() -> None:
    values = {"s": "secret", "m": ["secret"], "e": "secret", "mail": "secret", "n": "secret"}
    form = schema(
        s={"type": "string", "maxLength": 1},
        m=ENUMS["titled-multi"],
        e=ENUMS["untitled"],
        mail={"type": "string", "format": "email"},
        n={"type": "number"},
    )

    found = check_content(form, values)
    assert len(found) == len(values)
    assert "secret" not in " ".join(found)


# addresses


@pytest.mark.requirement("ELIC-16")
def test_an_ordinary_address_has_a_host_and_no_warnings() -> None:
    url = "https://Example.com:8443/a?b=c#d"

    assert describe_url(url) == UrlDescription(url, "example.com", ())


@pytest.mark.requirement("ELIC-29")
@pytest.mark.parametrize(
    ("url", "host", "warning"),
    [
        ("http://example.com/", "example.com", "scheme is http"),
        ("javascript:alert(1)", "", "scheme is javascript"),
        ("example.com/a", "", "scheme is missing"),
        ("https:///a", "", "no host"),
        ("https://example.com@evil.test/", "evil.test", "user name"),
        ("https://xn--80ak6aa92e.com/", "xn--80ak6aa92e.com", "Punycode"),
        ("https://a.xn--80ak6aa92e.com/", "a.xn--80ak6aa92e.com", "Punycode"),
        ("https://p\u0430ypal.com/", "p\u0430ypal.com", "mixes scripts: CYRILLIC, LATIN"),
        (
            "https://\u043f\u0440\u0438.\u0440\u0444/",
            "\u043f\u0440\u0438.\u0440\u0444",
            "not written in Latin",
        ),
        ("https://evil.test\\@example.com/", "example.com", "browsers read"),
        ("https://exa\nmple.com/", "example.com", "browsers read"),
        ("https://[::1", "", "cannot be read"),
        ("", "", "no host"),
    ],
)
def test_an_address_that_may_deceive_comes_with_a_warning(url: str, host: str, warning: str) -> None:
    described = describe_url(url)

    assert (described.url, described.host) == (url, host)
    assert warning in "; ".join(described.warnings)


def test_hosts_that_are_numbers_have_no_script() -> None:
    assert describe_url("https://127.0.0.1/").warnings == ()
