"""The exceptions: what they say, what they hold, and that they survive pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

import trio_mcp_stdio
from trio_mcp_stdio import (
    ClientClosed,
    ConnectionLost,
    Delivery,
    EndlessList,
    InputRequiredError,
    InvalidArguments,
    InvalidParams,
    InvalidResult,
    LineTooLong,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    MissingClientCapability,
    NegotiationError,
    ProcessExit,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    ResourceNotFound,
    RpcError,
    ServerExited,
    SpawnError,
    StartupTimeout,
    SubscriptionLost,
    ToolError,
    UnsupportedProtocolVersion,
)
from trio_mcp_stdio.types import CallToolResult, TextContent

EXIT = ProcessExit(
    pid=7,
    returncode=-11,
    signal=11,
    ending="exited",
    expected=False,
    stderr_tail="first line\nlast line",
    leftovers=(8, 9),
)

ERRORS: list[McpError] = [
    McpError("plain"),
    McpError("plain", server="files"),
    ProtocolError("plain", server="files"),
    LocalProtocolError("NaN is not JSON", server="files"),
    RemoteProtocolError("broken", server="files"),
    LineTooLong("a long line", limit=10, size=20, server="files"),
    InvalidResult(method="tools/list", problems=["tools: is missing", "x: odd"], server="files"),
    RpcError(-32000, "no", {"a": [1]}, method="tools/call", server="files"),
    RpcError(5, "", None),
    MethodNotFound(-32601, "Method not found", method="x/y", server="files"),
    InvalidParams(-32602, "bad", "text", method="tools/call", server="files"),
    ResourceNotFound(-32002, "gone", {"uri": "a:b"}, method="resources/read", server="files"),
    UnsupportedProtocolVersion(-32022, "no", {"supported": ["1", "2"], "requested": "3"}, server="files"),
    MissingClientCapability(-32021, "no", {"requiredCapabilities": {"roots": {}}}, server="files"),
    RequestTimeout(
        method="tools/call",
        request_id=5,
        timeout=2.5,
        elapsed=2.501,
        idle=True,
        received=("3 lines", "noise"),
        server="files",
    ),
    RequestTimeout(method="tools/call", request_id=None, timeout=0, elapsed=0.0),
    ConnectionLost("it closed its stdout", delivery=Delivery.PARTLY_SENT, method="m", server="files"),
    ConnectionLost("it closed its stdout", delivery=Delivery.NOT_SENT),
    ClientClosed("the client was closed", delivery=Delivery.OUTCOME_UNKNOWN, method="m", server="files"),
    ServerExited(
        "the server was ended by SIGSEGV",
        exit=EXIT,
        phase="probe",
        delivery=Delivery.OUTCOME_UNKNOWN,
        noise=("hello", "world"),
        method="tools/call",
        server="files",
    ).about(command=("serve", "***"), stderr_tail=EXIT.stderr_tail),
    SpawnError("cannot start", argv=("serve", "***"), path="/bin:/usr/bin", server="files"),
    NegotiationError(
        "no common version",
        supported=("1", "2"),
        attempted=("3",),
        phase="initialize",
        error=RpcError(-32022, "no", {"supported": ["1"]}),
        received=("noise",),
        server="files",
    ),
    StartupTimeout(
        timeout=60, phase="probe", attempted=("3",), exit=EXIT, received=("noise",), server="files"
    ).about(command=("serve", "***"), stderr_tail=EXIT.stderr_tail),
    InputRequiredError(
        method="tools/call",
        result={"resultType": "input_required", "inputRequests": {"b": {}, "a": {}}},
        reason="no handler for elicitation/create",
    ),
    ToolError(CallToolResult(content=(TextContent(text="it broke"),), is_error=True), server="files"),
    EndlessList("the list has no end", method="tools/list", items=(1, 2), server="files"),
    InvalidArguments(tool="add", problems=["a: is missing"], server="files"),
    SubscriptionLost("it closed its stdout", server="files"),
]


def name(error: object) -> str:
    return type(error).__name__


def state(error: McpError) -> dict[str, Any]:
    """Everything an error holds, errors inside it included."""
    return {
        key: (type(value), value.args, state(value)) if isinstance(value, McpError) else value
        for key, value in vars(error).items()
    }


def test_every_exception_is_among_them() -> None:
    exported = {
        cls
        for cls in vars(trio_mcp_stdio).values()
        if inspect.isclass(cls) and issubclass(cls, BaseException)
    }
    assert {type(error) for error in ERRORS} == exported


@pytest.mark.parametrize("error", ERRORS, ids=name)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_error_is_the_same(error: McpError, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert repr(again) == repr(error)
    assert again.args == error.args
    assert state(again) == state(error)


@pytest.mark.parametrize("error", ERRORS, ids=name)
def test_copied_error_is_the_same(error: McpError) -> None:
    for again in (copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again).keys() == vars(error).keys()


def test_notes_and_own_attributes_are_pickled() -> None:
    error = McpError("plain", server="files")
    error.add_note("seen on Monday")
    error.mine = 5  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(error))
    assert again.__notes__ == ["seen on Monday"]
    assert again.mine == 5


def test_groups_of_errors_pickle() -> None:
    again = pickle.loads(pickle.dumps(ExceptionGroup("several", ERRORS)))
    assert [str(error) for error in again.exceptions] == [str(error) for error in ERRORS]


@pytest.mark.parametrize("error", ERRORS, ids=name)
def test_error_names_its_server_and_message_first(error: McpError) -> None:
    first = str(error).splitlines()[0]
    assert first.startswith("files: ") == (error.server == "files")
    assert error.message.splitlines()[0] in first if error.message else first


@pytest.mark.parametrize("error", ERRORS, ids=name)
def test_error_can_be_raised_and_caught_by_its_bases(error: McpError) -> None:
    with pytest.raises(type(error)) as info:
        raise error
    assert info.value is error
    assert isinstance(error, McpError)


def test_local_and_remote_faults_are_unrelated() -> None:
    """A fault of this side can never be taken for something that the peer said."""
    for ours in (LocalProtocolError, RequestTimeout, ConnectionLost, SpawnError, ToolError):
        assert not issubclass(ours, (RpcError, RemoteProtocolError))
    assert not issubclass(RpcError, ProtocolError)
    assert not issubclass(RequestTimeout, TimeoutError)


SAYS: dict[type[McpError], list[str]] = {
    InvalidResult: ["tools/list", "tools: is missing", "x: odd"],
    RpcError: ["no", "-32000", "tools/call"],
    RequestTimeout: ["tools/call", "idle timeout of 2.5 s", "2.501", "3 lines", "noise"],
    ConnectionLost: ["it closed its stdout", "m: partly sent"],
    ClientClosed: ["m: outcome unknown"],
    ServerExited: [
        "SIGSEGV", "phase: probe", "serve ***", "hello", "world", "    first line", "    last line",
        "tools/call: outcome unknown",
    ],
    NegotiationError: ["no common version", "1, 2", "3", "-32022", "noise"],
    StartupTimeout: ["60 s", "probe", "startup_timeout", "noise", "serve ***", "    last line"],
    InputRequiredError: ["tools/call", "no handler for elicitation/create"],
    ToolError: ["it broke"],
}  # fmt: skip


@pytest.mark.parametrize("cls", SAYS)
def test_error_says_what_it_knows(cls: type[McpError]) -> None:
    text = str(next(error for error in ERRORS if type(error) is cls))
    for part in SAYS[cls]:
        assert part in text


@pytest.mark.parametrize(
    ("code", "data", "method", "expected"),
    [
        (-32601, None, "x", MethodNotFound),
        (-32602, None, "tools/call", InvalidParams),
        (-32602, {"uri": "a:b"}, "resources/read", ResourceNotFound),
        (-32602, {"uri": "a:b"}, "tools/call", InvalidParams),
        (-32602, ["uri"], "resources/read", InvalidParams),
        (-32002, None, "resources/read", ResourceNotFound),
        (-32021, {"requiredCapabilities": {}}, "x", MissingClientCapability),
        (-32022, {"supported": []}, "x", UnsupportedProtocolVersion),
        (-32000, None, "x", RpcError),
        (-32001, None, "x", RpcError),
        (-32603, None, None, RpcError),
        (0, None, None, RpcError),
        (2**70, None, None, RpcError),
    ],
)
def test_most_specific_class_is_made(code: int, data: Any, method: str | None, expected: type) -> None:
    error = RpcError.from_wire(code, "no", data, method=method, server="files")
    assert type(error) is expected
    assert (error.code, error.data, error.method, error.server) == (code, data, method, "files")


@pytest.mark.parametrize("data", [None, "x", [], {"supported": "1", "requested": 5}, {"supported": [1]}])
def test_data_of_the_wrong_shape_is_as_good_as_none(data: Any) -> None:
    rejected = UnsupportedProtocolVersion(-32022, "no", data)
    assert (rejected.supported, rejected.requested) == ([], None)
    assert MissingClientCapability(-32021, "no", data).required == {}


def test_accessors_of_the_data() -> None:
    rejected = UnsupportedProtocolVersion(-32022, "no", {"supported": ["1"], "requested": "2"})
    assert (rejected.supported, rejected.requested) == (["1"], "2")
    assert MissingClientCapability(-32021, "no", {"requiredCapabilities": {"roots": {}}}).required == {
        "roots": {}
    }


def test_message_leaves_out_what_the_text_adds() -> None:
    error = next(error for error in ERRORS if type(error) is ServerExited)
    assert error.message == "the server was ended by SIGSEGV"
    assert isinstance(error, ServerExited)
    assert error.reason == error.message
