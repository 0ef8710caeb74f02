"""Lists that come in pages: one page at a time, or everything at once."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeVar, final

import trio

from .._errors import EndlessList, LocalProtocolError, RequestTimeout
from .._wire.convert import UNSET, UnsetType

__all__ = ["MAX_PAGES", "Pages", "collect_pages"]

MAX_PAGES: Final = 1000
"""Pages of one list, by default; more of them are taken for a list without an end."""


class Page(Protocol):
    """What the four list results have in common."""

    @property
    def next_cursor(self) -> str | UnsetType: ...


P = TypeVar("P", bound=Page)


@final
class Pages(Generic[P]):
    """The pages of a list, each asked for when it is wanted: `async for page in client.tool_pages()`.

    One request a page, in the task that iterates, and nothing in between: it may be left at any time, and
    there is nothing to close.  Any number of tasks may iterate over pages of their own; one object belongs
    to one task at a time.

    What a request raises is raised as it is.  After an error, or a cancellation, iterating on asks for the
    same page again.

    Raises:
        EndlessList: a cursor came a second time, or there are more than `max_pages` pages.
        LocalProtocolError: two tasks iterate over the same object.
    """

    def __init__(
        self,
        ask: Callable[[str | UnsetType], Awaitable[P]],
        *,
        method: str,
        server: str,
        cursor: str | UnsetType,
        max_pages: int,
    ) -> None:
        if not isinstance(max_pages, int) or max_pages < 1:
            raise LocalProtocolError(f"max_pages must be at least 1, not {max_pages!r}", server=server)
        self._ask = ask
        self._method = method
        self._server = server
        self._cursor = cursor
        self._seen = set() if cursor is UNSET else {cursor}
        self._repeated: str | UnsetType = UNSET
        self._max_pages = max_pages
        self._count = 0
        self._ended = False
        self._busy = False

    def __repr__(self) -> str:
        return f"<Pages of {self._method}, {self._count} read{', ended' if self._ended else ''}>"

    @property
    def cursor(self) -> str | UnsetType:
        """Cursor of the page that comes next, UNSET before the first and after the last."""
        return self._cursor

    def __aiter__(self) -> Pages[P]:
        return self

    async def __anext__(self) -> P:
        if self._ended:
            raise StopAsyncIteration
        if self._busy:
            raise LocalProtocolError(
                f"another task is waiting for a page of this {self._method}", server=self._server
            )
        if self._repeated is not UNSET:
            raise self._endless(f"the cursor {self._repeated!r:.80} comes again after {self._count} pages")
        if self._count >= self._max_pages:
            raise self._endless(f"{self._max_pages} pages, and more to come")
        self._busy = True
        try:
            page = await self._ask(self._cursor)
        finally:
            self._busy = False
        self._count += 1
        self._cursor = following = page.next_cursor
        if following is UNSET:
            self._ended = True
        elif following in self._seen:
            self._repeated = following  # told when the next page is wanted, so that this one is handed out
        else:
            self._seen.add(following)
        return page

    def _endless(self, reason: str) -> EndlessList:
        return EndlessList(
            f"{self._method}: the list has no end: {reason}", method=self._method, server=self._server
        )


async def collect_pages(
    ask: Callable[[str | UnsetType, float | None], Awaitable[P]],
    items_of: Callable[[P], tuple[Any, ...]],
    *,
    method: str,
    server: str,
    max_pages: int,
    timeout: float | None,
) -> tuple[Any, ...]:
    """Read every page, with one limit for all of them.

    Args:
        ask: asks for the page at a cursor, within a number of seconds.
        timeout: seconds for the whole list, None for no limit.

    Raises:
        EndlessList: with the items read so far.
        RequestTimeout: the time has passed; its numbers are those of the whole list.
    """
    began = trio.current_time()
    ends = math.inf if timeout is None else began + timeout

    def ask_in_time(cursor: str | UnsetType) -> Awaitable[P]:
        return ask(cursor, None if timeout is None else max(0.0, ends - trio.current_time()))

    items: list[Any] = []
    pages = Pages(ask_in_time, method=method, server=server, cursor=UNSET, max_pages=max_pages)
    try:
        async for page in pages:
            items += items_of(page)
    except EndlessList as error:
        error.items = tuple(items)
        raise
    except RequestTimeout as error:
        if error.idle or timeout is None:
            raise
        raise RequestTimeout(
            method=method,
            request_id=error.request_id,
            timeout=timeout,
            elapsed=trio.current_time() - began,
            received=error.received,
            server=server,
        ) from error
    return tuple(items)
