"""Callbacks of the user that are fed by the library's tasks.

A synchronous callback runs at once on the trio thread and must not block.  An asynchronous one runs in a
task of its own behind a bounded queue whose oldest items are dropped and counted, so that it can neither
stop a reader nor hold memory.  What a callback raises is logged once with its traceback, counted, and
never reaches anybody else.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar, cast

import trio

__all__ = ["CallbackQueue", "is_async_callable"]

T = TypeVar("T")

MAX_QUEUED: Final = 4_096
MAX_QUEUED_BYTES: Final = 64 * 2**20


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # not a test whether it is callable
    )


class CallbackQueue(Generic[T]):
    """Feeds one callback.

    Attributes:
        dropped: items that an asynchronous callback was too slow for, at the end as well.
        errors: exceptions that the callback raised.
    """

    def __init__(
        self,
        function: Callable[[T], None] | Callable[[T], Awaitable[None]],
        *,
        what: str,
        logger: logging.Logger,
    ) -> None:
        self._function = function
        self._what = what
        self._logger = logger
        self._is_async = is_async_callable(function)
        self._items: deque[tuple[T, int]] = deque()
        self._size = 0
        self._news = trio.Event()
        self._closed = False
        self.dropped = 0
        self.errors = 0

    def put(self, item: T, size: int = 0) -> None:
        """Hand over one item, of about so many bytes.  Never blocks and never raises."""
        if not self._is_async:
            try:
                outcome = cast("Callable[[T], object]", self._function)(item)
                if inspect.iscoroutine(outcome):
                    outcome.close()
                    raise TypeError("a callback that returns a coroutine has to be an async function")
            except Exception as error:
                self._report(error)
            return
        self._items.append((item, size))
        self._size += size
        while len(self._items) > MAX_QUEUED or (self._size > MAX_QUEUED_BYTES and len(self._items) > 1):
            self._take()
            self.dropped += 1
        self._news.set()

    def _take(self) -> T:
        item, size = self._items.popleft()
        self._size -= size
        return item

    def close(self) -> None:
        """No more items: `run` returns when the queue is empty."""
        self._closed = True
        self._news.set()

    async def run(self) -> None:
        """Call an asynchronous callback with one item after another; a synchronous one needs no task."""
        if not self._is_async:
            return
        function = cast("Callable[[T], Awaitable[None]]", self._function)
        try:
            await self._run(function)
        finally:
            self.dropped += len(self._items)
            self._items.clear()

    async def _run(self, function: Callable[[T], Awaitable[None]]) -> None:
        while self._items or not self._closed:
            if not self._items:
                await self._news.wait()
                self._news = trio.Event()
                continue
            try:
                await function(self._take())
            except Exception as error:
                self._report(error)

    def _report(self, error: Exception) -> None:
        self.errors += 1
        if self.errors == 1:
            self._logger.error("the %s raised; it goes on being called", self._what, exc_info=error)
