"""The calls that the demo server is running, and what it remembers of those it stopped."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from .._wire.jsonrpc import RequestId
from .._wire.methods import Era
from .demo_tools import TOOLS, Pause, Result, Steps, ToolDefinition, content

__all__ = ["Call", "Calls"]

MAX_RUNNING: Final = 1000
MAX_REMEMBERED: Final = 100


@attrs.define(eq=False)
class Call:
    """A running call of a tool.

    Attributes:
        token: what its progress is reported under, None for a client that wants none.
        began: when it was started.
        due: when it goes on.
    """

    id: RequestId
    era: Era
    tool: str
    steps: Steps
    token: RequestId | None
    began: float
    due: float


class Calls:
    """Running calls, which take turns.

    Args:
        clock: seconds, from any beginning.
        on_result: takes a call that has ended, with its result.
        on_progress: takes the progress of a call whose client wants it.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        on_result: Callable[[Call, Result], None],
        on_progress: Callable[[RequestId, Pause], None],
    ) -> None:
        self._clock = clock
        self._on_result = on_result
        self._on_progress = on_progress
        self._running: dict[RequestId, Call] = {}
        self._cancelled: deque[dict[str, Any]] = deque(maxlen=MAX_REMEMBERED)
        tools = (*TOOLS, _cancelled_tool(self._tell))
        self.tools: Mapping[str, ToolDefinition] = {tool.name: tool for tool in tools}

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._running

    @property
    def is_full(self) -> bool:
        """No more calls are taken."""
        return len(self._running) >= MAX_RUNNING

    def start(
        self,
        request_id: RequestId,
        era: Era,
        tool: ToolDefinition,
        arguments: Mapping[str, Any],
        token: RequestId | None,
    ) -> None:
        """Begin a call and take it as far as it goes without waiting.

        Raises:
            BadArguments: the arguments break the tool's schema.
        """
        steps, now = tool.start(arguments), self._clock()
        self._running[request_id] = call = Call(request_id, era, tool.name, steps, token, now, now)
        self._advance(call, now)

    def run_due(self) -> float | None:
        """Let every call that is due go one step.

        Returns:
            Seconds until the next one is due, None while no call is running.
        """
        now = self._clock()
        for call in list(self._running.values()):
            if call.due <= now:
                self._advance(call, now)
        if not self._running:
            return None
        return max(0.0, min(call.due for call in self._running.values()) - self._clock())

    def _advance(self, call: Call, now: float) -> None:
        try:
            pause = next(call.steps)
        except StopIteration as stop:
            result = stop.value
        except Exception as error:
            result = content(f"{call.tool} failed: {error}", isError=True)
        else:
            call.due = now + pause.seconds
            if pause.progress is not None and call.token is not None:
                self._on_progress(call.token, pause)
            return
        del self._running[call.id]
        self._on_result(call, result)

    def cancel(self, request_id: object) -> tuple[str, float] | None:
        """Stop a call, of which nothing more will be heard.

        Returns:
            The tool and for how many seconds it ran, None when there is no such call: it may have ended.
        """
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            return None
        call = self._running.pop(request_id, None)
        if call is None:
            return None
        call.steps.close()
        seconds = round(self._clock() - call.began, 3)
        self._cancelled.append({"id": call.id, "tool": call.tool, "seconds": seconds})
        return call.tool, seconds

    def close(self) -> None:
        """Stop all that are running."""
        for call in self._running.values():
            call.steps.close()
        self._running.clear()

    def _tell(self) -> dict[str, Any]:
        # The call that asks is running as well.
        return {"cancelled": list(self._cancelled), "running": len(self._running) - 1}


def _cancelled_tool(tell: Callable[[], dict[str, Any]]) -> ToolDefinition:
    def run(_: Mapping[str, Any]) -> Steps:
        yield from ()
        told = tell()
        return content(json.dumps(told), structuredContent=told)

    return ToolDefinition(
        name="cancelled",
        description="Tell which calls were cancelled and stopped, and how many are running.",
        properties={},
        run=run,
    )
