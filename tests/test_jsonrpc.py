"""Messages: what decodes to what, that nothing raises, and that nothing encodes to two lines."""

from __future__ import annotations

import inspect
import json
import math
import sys
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trio_mcp_stdio import UNSET
from trio_mcp_stdio._wire.codec import encode_params
from trio_mcp_stdio._wire.jsonrpc import (
    Batch,
    Failure,
    Malformed,
    Notification,
    Request,
    Success,
    Tolerated,
    decode,
    encode_failure,
    encode_notification,
    encode_request,
    encode_success,
    find_id,
    preview,
)

BOM = b"\xef\xbb\xbf"
HUGE = b"9" * 5000  # more digits than the interpreter converts


def told(message: object) -> Any:
    """A decoded message as a value that can be compared."""
    assert attrs.has(type(message))
    if isinstance(message, Batch):
        return ("Batch", [told(item) for item in message.messages])
    if isinstance(message, Tolerated):
        return ("Tolerated", told(message.message))
    return (type(message).__name__, *attrs.astuple(message, recurse=False))  # type: ignore[arg-type]


def check(message: object) -> None:
    """What every outcome of `decode` has to be, whatever the bytes were."""
    assert type(message) in (Request, Notification, Success, Failure, Malformed, Tolerated, Batch)
    if isinstance(message, Batch):
        for item in message.messages:
            assert type(item) is not Batch
            check(item)
        return
    if isinstance(message, Tolerated):
        assert type(message.message) in (Request, Notification, Success, Failure)
        assert message.reason
        message = message.message
    if isinstance(message, (Request, Success, Failure, Malformed)):
        assert type(message.id) in (int, str) or (
            message.id is None and isinstance(message, (Failure, Malformed))
        )
    if isinstance(message, (Request, Notification)):
        assert type(message.method) is str
        assert type(message.params) is dict
    elif isinstance(message, Success):
        assert type(message.result) is dict
    elif isinstance(message, Failure):
        assert type(message.code) is int
        assert type(message.message) is str
    elif isinstance(message, Malformed):
        assert message.reason
        assert type(message.excerpt) is bytes
        assert len(message.excerpt) <= 200
        preview(message.excerpt).encode()


# Strategies

TEXT = st.text(max_size=20)
ID = st.integers() | TEXT
SCALAR = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=4)
ERROR = st.fixed_dictionaries({"code": st.integers(), "message": st.text()}, optional={"data": JSON})
VALID = st.one_of(
    st.fixed_dictionaries({"id": ID, "method": st.text()}, optional={"params": OBJECT}),
    st.fixed_dictionaries({"method": st.text()}, optional={"params": OBJECT}),
    st.fixed_dictionaries({"id": ID, "result": OBJECT}),
    st.fixed_dictionaries({"error": ERROR}, optional={"id": ID | st.none()}),
).map(lambda message: {"jsonrpc": "2.0", **message})
MEMBER = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "code", "message", "data"])
ODD = st.dictionaries(
    MEMBER, SCALAR | st.just("2.0") | st.dictionaries(MEMBER, JSON, max_size=4) | JSON, max_size=6
)

dumps = st.sampled_from(
    [
        lambda value: json.dumps(value).encode(),
        lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"),
        lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True).encode(),
    ]
)


DAMAGE = [
    *(b"", b"\xff", b"\x00", b"\r", BOM, b"{", b"}", b"[", b'"', b"\\", b"\\ud800"),
    *(b"NaN", b"-Infinity", b"1e999", b"1.0", b"null", b'"id":1,', HUGE),
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid message with a few bytes taken out, put in, doubled or replaced."""
    line = draw(dumps)(draw(VALID | ODD))
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted((draw(st.integers(0, len(line))), draw(st.integers(0, len(line)))))
        part = line[start:end]
        middle = draw(st.sampled_from([*DAMAGE, part * 2, part[::-1]]) | st.binary(max_size=6))
        line = line[:start] + middle + line[end:]
    return line


# Never raises


@pytest.mark.requirement("STDIO-FRAME-13")
@given(line=st.binary(max_size=200))
def test_any_bytes_decode_to_something(line: bytes) -> None:
    check(decode(line))
    assert told(decode(bytearray(line))) == told(decode(line))


@given(value=JSON | ODD, dump=dumps)
def test_any_json_decodes_to_something(value: Any, dump: Any) -> None:
    check(decode(dump(value)))


@given(value=st.lists(VALID | ODD | JSON, max_size=4), dump=dumps)
def test_any_array_decodes_to_something(value: Any, dump: Any) -> None:
    check(decode(dump(value)))


@pytest.mark.requirement("STDIO-FRAME-13")
@given(line=mutated())
@example(line=b'{"jsonrpc":"2.0","id":1,"error":{"code":%b,"message":"x"}}' % HUGE)
@example(line=b'{"jsonrpc":"2.0","id":1,"error":{"code":"%b","message":"x"}}' % HUGE)
@example(line=b'{"jsonrpc":"2.0","id":1,"error":{"code":1e999,"message":1e999}}')
@example(line=b'{"jsonrpc":"2.0","id":"\\ud800","error":"\\udfff"}')
def test_damaged_message_decodes_to_something(line: bytes) -> None:
    check(decode(line))


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
@pytest.mark.parametrize(
    "around",
    [
        b"%b",
        b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}',
        b'{"jsonrpc":"2.0","id":1,"result":%b}',
        b'{"jsonrpc":"2.0","id":1,"error":%b}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":%b,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":%b}}',
        b'{"jsonrpc":"2.0","id":%b,"method":"x"}',
        b'{"jsonrpc":"2.0","method":%b}',
        b'[{"jsonrpc":"2.0","id":1,"error":%b}]',
    ],
)
def test_no_depth_of_nesting_raises(around: bytes, brackets: tuple[bytes, bytes]) -> None:
    opening, closing = brackets
    usual = sys.getrecursionlimit()
    here = len(inspect.stack(0))
    try:
        for limit, depths in ((here + 100, range(1, 120)), (usual, (200, 500, 1000, 5000, 20_000, 100_000))):
            sys.setrecursionlimit(limit)
            for depth in depths:
                for inner in (b"1", b"{}", b"[]"):
                    check(decode(around % (opening * depth + inner + closing * depth)))
    finally:
        sys.setrecursionlimit(usual)


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"jsonrpc":"2.0","id":7,"result":' + b'{"a":' * 100_000])
def test_unclosed_nesting_is_malformed(line: bytes) -> None:
    assert isinstance(decode(line), Malformed)


# Well-formed messages


WELL_FORMED: list[tuple[str, tuple[Any, ...]]] = [
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1]}}', ("Request", 1, "m", {"a": [1]})),
    ('{"jsonrpc":"2.0","id":"x","method":"m"}', ("Request", "x", "m", {})),
    ('{"jsonrpc":"2.0","id":0,"method":"","params":null}', ("Request", 0, "", {})),
    ('{"jsonrpc":"2.0","method":"m"}', ("Notification", "m", {})),
    ('{"jsonrpc":"2.0","method":"m","params":{}}', ("Notification", "m", {})),
    ('{"jsonrpc":"2.0","id":1,"result":{}}', ("Success", 1, {})),
    ('{"result":{"a":null},"id":"","jsonrpc":"2.0"}', ("Success", "", {"a": None})),
    ('{"jsonrpc":"2.0","id":-5,"result":{}}', ("Success", -5, {})),
    (f'{{"jsonrpc":"2.0","id":{2**70},"result":{{}}}}', ("Success", 2**70, {})),
    (f'{{"jsonrpc":"2.0","id":1,"result":{{"n":{10**30}}}}}', ("Success", 1, {"n": 10**30})),
    ('{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}', ("Failure", 1, -1, "x", None)),
    ('{"jsonrpc":"2.0","id":1,"error":{"code":2,"message":"","data":[0]}}', ("Failure", 1, 2, "", [0])),
    ('{"jsonrpc":"2.0","id":null,"error":{"code":2,"message":""}}', ("Failure", None, 2, "", None)),
    ('{"jsonrpc":"2.0","error":{"code":2,"message":"","more":1}}', ("Failure", None, 2, "", None)),
    (' \t{ "jsonrpc" : "2.0" , "id" : 1 , "result" : { } } ', ("Success", 1, {})),
    ('{"jsonrpc":"2.0","id":1,"extra":{"id":2},"result":{}}', ("Success", 1, {})),
    ('{"jsonrpc":"2.0","id":1,"result":{"id":7,"error":{},"method":"x"}}', ("Success", 1)),
    ('{"jsonrpc":"2.0","id":1,"id":2,"result":{"a":1},"result":{"a":2}}', ("Success", 2, {"a": 2})),
    ('{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}', ("Success", 1, {"a": 2})),
    ('{"\\u0069d":1,"jsonrpc":"2.0","result":{}}', ("Success", 1, {})),
    ('{"jsonrpc":"2.0","id":1,"result":{"t":"\u2028\u0085\\n\\ud83d\\ude00"}}', ("Success", 1)),
]


@pytest.mark.requirement("MSG-01", "MSG-21", "STDIO-FRAME-17")
@pytest.mark.parametrize(("line", "expected"), WELL_FORMED)
def test_well_formed_message(line: str, expected: tuple[Any, ...]) -> None:
    assert told(decode(line.encode()))[: len(expected)] == expected


@given(message=VALID, dump=dumps)
def test_both_paths_agree(message: dict[str, Any], dump: Any) -> None:
    """A byte order mark forces the slow path."""
    line = dump(message)
    assert told(decode(BOM + line)) == ("Tolerated", told(decode(line)))


@given(message=VALID)
def test_answer_is_told_from_request(message: dict[str, Any]) -> None:
    found = decode(json.dumps(message).encode())
    if "method" in message:
        assert isinstance(found, (Request if "id" in message else Notification))
        assert found.params == (message.get("params") or {})
    elif "result" in message:
        assert isinstance(found, Success)
        assert (found.id, found.result) == (message["id"], message["result"])
    else:
        assert isinstance(found, Failure)
        assert (found.id, found.code) == (message.get("id"), message["error"]["code"])
        assert (found.message, found.data) == (message["error"]["message"], message["error"].get("data"))


# The salvage path


OK = b'{"jsonrpc":"2.0","id":1,"result":{}}'
SUCCESS = ("Success", 1, {})

TOLERATED: dict[str, tuple[bytes, tuple[Any, ...], str]] = {
    "byte order mark": (BOM + OK, SUCCESS, "bytes before the message"),
    "terminal escapes": (b"\x1b[2K\x1b[1;32m\x1b[?25l" + OK, SUCCESS, "bytes before the message"),
    "all kinds of junk": (b" \r\t" + BOM + b"\x1b[0m " + OK, SUCCESS, "bytes before the message"),
    "invalid UTF-8": (
        b'{"jsonrpc":"2.0","id":1,"result":{"t":"a\xffb"}}',
        ("Success", 1, {"t": "a\ufffdb"}),
        "invalid UTF-8",
    ),
    "surrogate as bytes": (
        b'{"jsonrpc":"2.0","method":"m","params":{"t":"\xed\xa0\x80"}}',
        ("Notification", "m"),
        "invalid UTF-8",
    ),
    "integer id as a fraction": (b'{"jsonrpc":"2.0","id":1.0,"result":{}}', SUCCESS, "fraction"),
    "both members, error null": (
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}',
        SUCCESS,
        "both members, one of them null",
    ),
    "both members, result null": (
        b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"x"}}',
        ("Failure", 1, 1, "x", None),
        "both members, one of them null",
    ),
    "error is a string": (
        b'{"jsonrpc":"2.0","id":1,"error":"broken"}',
        ("Failure", 1, 0, "broken", None),
        "no object",
    ),
    "error is an array": (
        b'{"jsonrpc":"2.0","id":1,"error":[1]}',
        ("Failure", 1, 0, "[1]", None),
        "no object",
    ),
    "code is a string": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"-32601","message":"x"}}',
        ("Failure", 1, -32601, "x", None),
        "no integer",
    ),
    "code is a fraction": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601.0,"message":"x"}}',
        ("Failure", 1, -32601, "x", None),
        "no integer",
    ),
    "code is a word": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"E_FAIL","message":"x","data":{"a":1}}}',
        ("Failure", 1, 0, "x", {"a": 1}),
        "no integer",
    ),
    "code is missing": (
        b'{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}',
        ("Failure", 1, 0, "x", None),
        "no integer",
    ),
    "code is true": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":"x"}}',
        ("Failure", 1),
        "no integer",
    ),
    "message is missing": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":5}}',
        ("Failure", 1, 5, "", None),
        "message that is no string",
    ),
    "message is an object": (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":{"a":1}}}',
        ("Failure", 1, 5, '{"a": 1}', None),
        "message that is no string",
    ),
}


@pytest.mark.parametrize("case", TOLERATED)
def test_fault_that_hides_nothing_is_tolerated(case: str) -> None:
    line, expected, reason = TOLERATED[case]
    found = decode(line)
    assert isinstance(found, Tolerated)
    assert told(found.message)[: len(expected)] == expected
    assert reason in found.reason


def test_lone_surrogate_as_an_escape_reaches_the_caller() -> None:
    found = decode(b'{"jsonrpc":"2.0","id":1,"result":{"t":"\\ud800"}}')
    found = found.message if isinstance(found, Tolerated) else found
    assert told(found) == ("Success", 1, {"t": "\ud800"})


def test_empty_array_stands_for_no_params() -> None:
    assert told(decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]}')) == ("Request", 1, "m", {})


def test_several_faults_are_all_named() -> None:
    found = decode(BOM + b'{"jsonrpc":"2.0","id":1.0,"error":"\xff"}')
    assert isinstance(found, Tolerated)
    assert [word for word in ("before", "UTF-8", "fraction", "object") if word in found.reason] == [
        "before",
        "UTF-8",
        "fraction",
        "object",
    ]


# line -> id of the request that fails, whether it is noise
MALFORMED: dict[bytes, tuple[int | str | None, bool]] = {
    # no message at all
    b"": (None, True),
    b"Server running on stdio": (None, True),
    b"Content-Length: 120": (None, True),
    b"12": (None, True),
    b'"text"': (None, True),
    b"null": (None, True),
    b"true": (None, True),
    b"[1,2]": (None, True),
    b'[{"level":"info"}]': (None, True),
    b'{"level":"info","msg":"started"}': (None, True),
    b'{"level":"info","id":1}': (None, True),
    b'{"level":"info","error":"x"}': (None, True),
    b"{broken": (None, True),
    b'{"id":1': (None, True),
    b"\xff\xfe\x00": (None, True),
    b"NaN": (None, True),
    b'{"loss":NaN}': (None, True),
    b'{"size":%b}' % HUGE: (None, True),
    # messages that cannot be read
    b'{"jsonrpc":"1.0","id":1,"result":{}}': (1, False),
    b'{"jsonrpc":2.0,"id":"a","error":{"code":1,"message":""}}': ("a", False),
    b'{"id":1,"result":{}}': (1, False),
    b'{"id":1,"error":{"code":1,"message":""}}': (1, False),
    b'{"jsonrpc":"1.0","id":1,"method":"m"}': (None, False),
    b'{"jsonrpc":"2.0"}': (None, False),
    b'{"jsonrpc":"2.0","id":1}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":null,"error":null}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":null}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":"ok"}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":[]}': (1, False),
    b'{"jsonrpc":"2.0","result":{}}': (None, False),
    b'{"jsonrpc":"2.0","id":null,"result":{}}': (None, False),
    b'{"jsonrpc":"2.0","id":true,"result":{}}': (None, False),
    b'{"jsonrpc":"2.0","id":1.5,"result":{}}': (None, False),
    b'{"jsonrpc":"2.0","id":[1],"result":{}}': (None, False),
    b'{"jsonrpc":"2.0","id":{},"method":"m"}': (None, False),
    b'{"jsonrpc":"2.0","id":null,"method":"m"}': (None, False),
    b'{"jsonrpc":"2.0","id":1,"method":5}': (None, False),
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":"p"}': (None, False),
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}': (None, False),
    b'{"jsonrpc":"2.0","method":"m","params":3}': (None, False),
    # what is no strict JSON
    b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":{"x":-Infinity}}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":{"x":Infinity},"error":null}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":NaN}}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":NaN}}': (None, False),
    b'{"jsonrpc":"2.0","method":"m","params":{"x":NaN}}': (None, False),
    b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}' % HUGE: (1, False),
    b'{"jsonrpc":"2.0","id":%b,"result":{}}' % HUGE: (None, False),
    b'{"jsonrpc":"2.0","id":1,"result":{"x":1}': (1, False),
    b'{"jsonrpc":"2.0","id":"a","result":{"x":1,}}': ("a", False),
    b'{"jsonrpc":"2.0","id":1,"result":{"x":"unterminated': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":{"x":"a\x01b"}}': (1, False),
    b'{"jsonrpc":"2.0","id":1,"result":{}} trailing': (1, False),
    b'{"result":{"x":[1,]},"jsonrpc":"2.0","id":1}': (1, False),
    b'{"jsonrpc":"2.0","result":{"x":1,"id":5}': (None, False),  # cut off: the id is a nested one
    OK + OK: (1, False),
}


@pytest.mark.requirement("STDIO-FRAME-13", "STDIO-FRAME-17", "MSG-19")
@pytest.mark.parametrize("line", MALFORMED, ids=lambda line: line[:60])
def test_unreadable_line_is_a_value(line: bytes) -> None:
    found = decode(line)
    assert isinstance(found, Malformed)
    assert (found.id, found.noise) == MALFORMED[line]
    assert found.excerpt == line[:200]


def test_broken_request_of_the_peer_names_no_request_of_this_side() -> None:
    """Its id is out of the peer's own numbers, which are the same as ours."""
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"x":1,}}')
    assert isinstance(found, Malformed)
    assert found.id is None


@pytest.mark.requirement("STDIO-FRAME-17")
@pytest.mark.parametrize("number", ["1e400", "-1e999", "123456789e999"])
def test_number_past_the_range_is_no_infinity(number: str) -> None:
    found = decode(b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}' % number.encode())
    if isinstance(found, Malformed):
        assert found.id == 1
    else:
        message = found.message if isinstance(found, Tolerated) else found
        assert isinstance(message, Success)
        assert math.isfinite(message.result["x"])


@pytest.mark.requirement("STDIO-FRAME-04")
def test_array_is_taken_apart() -> None:
    found = decode(
        b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"m"},3,{"jsonrpc":"2.0","id":2.0,"result":{}}]'
    )
    assert isinstance(found, Batch)
    first, second, third, fourth = found.messages
    assert told(first) == SUCCESS
    assert told(second) == ("Notification", "m", {})
    assert isinstance(third, Malformed)
    assert isinstance(fourth, Tolerated)
    assert told(fourth.message) == ("Success", 2, {})


def test_faults_of_one_element_do_not_mark_the_next() -> None:
    found = decode(b'[{"jsonrpc":"2.0","id":2.0,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]')
    assert isinstance(found, Batch)
    assert told(found.messages[1]) == SUCCESS


# Ids of lines that cannot be decoded


HEADS: dict[bytes, int | str | None] = {
    b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"': 7,
    b'{"id":"a b","jsonrpc":"2.0","result":{"x': "a b",
    b'{ "id" : -3 , "result" : {': -3,
    b'{"id":"\\"}{\\u0041","result":{': '"}{A',
    b'{"result":{"id":1},"id":2,"x":"': 2,
    b'{"result":{"a":[{"id":1}],"b":"}}}]]]"},"id":2,"x":"': 2,
    b'{"result":{"a":"\\"id\\":1}"},"id":2,': 2,
    b'{"x":"\\\\","id":2,"y': 2,
    b'{"x":"\\\\\\",\\"id\\":1","id":2,"y': 2,
    b'{"error":"id","x":1,"id":2,': 2,
    b'{"id":12345678901234567890123,"x': 12345678901234567890123,
    # not told yet, cut, or nested
    b'{"id":12': None,
    b'{"id":"ab': None,
    b'{"id"': None,
    b'{"i': None,
    b"{": None,
    b"": None,
    b'{"result":{"id":1,"x":"': None,
    b'{"result":[{"id":1},{"id":2': None,
    b'{"text":"{\\"id\\":1,"': None,
    b'{"text":"\\",\\"id\\":1,': None,
    b'[{"id":1,"result":{': None,
    b'{"id":null,"result":{': None,
    b'{"id":1.5,"result":{': None,
    b'{"id":true,"result":{': None,
    b'{"id":[1],"result":{': None,
    b'{"id":007,"result":{': None,
    b'{"id":"\xff","result":{': None,
    b'{"id":"a\nb","result":{': None,
    b'{"id":%b,"result":{' % HUGE: None,
}


@pytest.mark.parametrize("head", HEADS)
def test_id_in_the_head(head: bytes) -> None:
    found = find_id(head)
    assert found == HEADS[head]
    assert type(found) is type(HEADS[head])


TAILS: dict[bytes, int | str | None] = {
    b'x"}]},"id":7}': 7,
    b'x"}]} , "id" : 7 } ': 7,
    b'x"}]},"id":"a","jsonrpc":"2.0"}': "a",
    b'x"}]},"id":7 , "jsonrpc" : "2.0" }\r': 7,
    b',"id":"\\"}{"}': '"}{',
    # nested, or nothing that can be told from behind
    b'x"}],"id":7}}': None,
    b'"id":7}': None,
    b',"id":7,"x":1}': None,
    b',"id":7': None,
    b',"id":7.5}': None,
    b',"id":null}': None,
    b',"id":7}"}': None,
    b',"id":7} x': None,
    b',\\"id\\":7}': None,
    b"": None,
}


@pytest.mark.parametrize("tail", TAILS)
def test_id_in_the_tail(tail: bytes) -> None:
    assert find_id(b'{"jsonrpc":"2.0","result":{"x":"', tail) == TAILS[tail]


def test_head_goes_before_tail() -> None:
    assert find_id(b'{"id":1,"result":{', b'},"id":2}') == 1


@given(head=st.binary(max_size=60), tail=st.binary(max_size=60))
def test_finding_an_id_never_raises(head: bytes, tail: bytes) -> None:
    assert type(find_id(head, tail)) in (int, str, type(None))


@given(message=VALID, more=OBJECT, after=st.booleans(), dump=dumps, data=st.data())
def test_found_id_is_the_one_of_the_message(
    message: dict[str, Any], more: dict[str, Any], after: bool, dump: Any, data: st.DataObject
) -> None:
    """The id found in a head is the right one or none, wherever the line is cut."""
    line = dump({**message, "x": more} if after else {"x": more, **message})
    cut = data.draw(st.integers(0, len(line)))
    assert find_id(line[:cut]) in (None, message.get("id"))
    expected = message.get("id")
    if "method" not in message and (isinstance(expected, str) or abs(expected or 0) < 10**39):
        assert find_id(line) == expected


@pytest.mark.parametrize(
    "piece",
    [b",", b'"', b'"id":', b',"id":"', b"{", b"\\", b'\\"', b" ", b',"id":1', b'"id"  :  "\\', b"\xff"],
)
def test_adversarial_ends_take_no_time(piece: bytes) -> None:
    """Nothing in the two expressions may backtrack more than quadratically over their 4 KiB."""
    ends = piece * (4096 // len(piece))
    for head, tail in ((b"{" + ends, ends), (ends, b',"id":"' + ends), (ends, ends + b"}")):
        find_id(head, tail)
    decode(b'{"jsonrpc":"2.0",' + piece * 20_000)


# Encoding


@pytest.mark.requirement("STDIO-FRAME-02", "STDIO-FRAME-12", "MSG-03")
@given(request_id=ID, method=st.text(), params=OBJECT)
@example(request_id=2**70, method="\n\r\u2028\u0085", params={"\n": "\r\n", "\u2028": ["\x0b\x0c"]})
def test_encoded_message_is_one_line(request_id: int | str, method: str, params: dict[str, Any]) -> None:
    body = encode_params(params)
    for line, expected in (
        (encode_request(request_id, method, body), ("Request", request_id, method, params)),
        (encode_notification(method, body), ("Notification", method, params)),
        (encode_notification(method, None), ("Notification", method, {})),
        (encode_success(request_id, body), ("Success", request_id, params)),
        (encode_failure(request_id, -1, method, params), ("Failure", request_id, -1, method, params)),
        (encode_failure(request_id, -1, method), ("Failure", request_id, -1, method, None)),
        (encode_failure(None, 5, method, None), ("Failure", None, 5, method, None)),
    ):
        assert line.endswith(b"\n")
        assert not {0x0A, 0x0D} & set(line[:-1])
        line.decode("utf-8", "strict")
        assert json.loads(line)["jsonrpc"] == "2.0"
        assert told(decode(line[:-1])) == expected


def test_encoded_failure_has_data_only_when_given() -> None:
    assert b'"data"' not in encode_failure(1, -1, "x", UNSET)
    assert b'"data":null' in encode_failure(1, -1, "x", None)


@pytest.mark.parametrize("request_id", ["\ud800", "a\udfffb", 10**60, -(2**64)])
def test_id_of_the_peer_goes_back_as_it_came(request_id: int | str) -> None:
    for line in (encode_success(request_id, b"{}"), encode_failure(request_id, -1, "x")):
        assert json.loads(line)["id"] == request_id
        assert line.count(b"\n") == 1


@given(data=st.binary(max_size=300), limit=st.integers(1, 200))
@example(data=b"\x1b]0;title\x07\x1b[31m\x9b\xe2\x80\xae", limit=100)
def test_preview_obeys_no_control_byte(data: bytes, limit: int) -> None:
    text = preview(data, limit)
    assert text.isprintable()
    text.encode()
    assert len(text) <= 10 * limit + 1
    assert text.endswith("…") or len(data) <= limit
