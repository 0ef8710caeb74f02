"""The lists of a server: a page, the pages, or all of them."""

from __future__ import annotations

import operator
from typing import Any, Literal, TypeVar, Unpack, cast, overload

from .._connection.session import check_limit
from .._wire import methods
from .._wire.convert import UNSET, UnsetType
from ..types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from .options import DEFAULT, RequestOptions
from .pages import MAX_PAGES, Page, Pages, collect_pages
from .requests import Requests

__all__ = ["Lists"]

P = TypeVar("P", bound=Page)


class Lists(Requests):
    """The part of a client that reads lists: tools, resources, resource templates and prompts."""

    # --- one page ---

    @overload
    async def list_tools(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> ListToolsResult: ...
    @overload
    async def list_tools(
        self, cursor: str | UnsetType = UNSET, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def list_tools(
        self, cursor: str | UnsetType = UNSET, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ListToolsResult | dict[str, Any]:
        """One page of the server's tools; `cursor` is the `next_cursor` of the page before."""
        return await self._call(ListToolsResult, methods.TOOLS_LIST, _page(cursor), raw, options)

    @overload
    async def list_resources(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> ListResourcesResult: ...
    @overload
    async def list_resources(
        self, cursor: str | UnsetType = UNSET, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def list_resources(
        self, cursor: str | UnsetType = UNSET, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ListResourcesResult | dict[str, Any]:
        """One page of the server's resources."""
        return await self._call(ListResourcesResult, methods.RESOURCES_LIST, _page(cursor), raw, options)

    @overload
    async def list_resource_templates(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> ListResourceTemplatesResult: ...
    @overload
    async def list_resource_templates(
        self, cursor: str | UnsetType = UNSET, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def list_resource_templates(
        self, cursor: str | UnsetType = UNSET, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ListResourceTemplatesResult | dict[str, Any]:
        """One page of the server's resource templates."""
        return await self._call(
            ListResourceTemplatesResult, methods.RESOURCE_TEMPLATES_LIST, _page(cursor), raw, options
        )

    @overload
    async def list_prompts(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> ListPromptsResult: ...
    @overload
    async def list_prompts(
        self, cursor: str | UnsetType = UNSET, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def list_prompts(
        self, cursor: str | UnsetType = UNSET, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ListPromptsResult | dict[str, Any]:
        """One page of the server's prompts."""
        return await self._call(ListPromptsResult, methods.PROMPTS_LIST, _page(cursor), raw, options)

    # --- whole lists ---

    async def all_tools(
        self, *, max_pages: int = MAX_PAGES, **options: Unpack[RequestOptions]
    ) -> tuple[Tool, ...]:
        """All tools of the server, from all pages.

        `timeout` limits all pages together; `idle_timeout` each of them.  Items that cannot be read are left
        out; the pages tell them.

        Raises:
            EndlessList: a cursor came a second time, or there are more than `max_pages` pages.
        """
        return await self._all(ListToolsResult, "tools", methods.TOOLS_LIST, max_pages, options)

    def tool_pages(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        max_pages: int = MAX_PAGES,
        **options: Unpack[RequestOptions],
    ) -> Pages[ListToolsResult]:
        """The pages of the server's tools, each asked for when it is wanted, from `cursor` on.

        Each page is a request with a `timeout` of its own.
        """
        return self._pages(ListToolsResult, methods.TOOLS_LIST, cursor, max_pages, options)

    async def all_resources(
        self, *, max_pages: int = MAX_PAGES, **options: Unpack[RequestOptions]
    ) -> tuple[Resource, ...]:
        """All resources of the server, from all pages; otherwise as `all_tools`."""
        return await self._all(ListResourcesResult, "resources", methods.RESOURCES_LIST, max_pages, options)

    def resource_pages(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        max_pages: int = MAX_PAGES,
        **options: Unpack[RequestOptions],
    ) -> Pages[ListResourcesResult]:
        """The pages of the server's resources; otherwise as `tool_pages`."""
        return self._pages(ListResourcesResult, methods.RESOURCES_LIST, cursor, max_pages, options)

    async def all_resource_templates(
        self, *, max_pages: int = MAX_PAGES, **options: Unpack[RequestOptions]
    ) -> tuple[ResourceTemplate, ...]:
        """All resource templates of the server, from all pages; otherwise as `all_tools`."""
        return await self._all(
            ListResourceTemplatesResult,
            "resource_templates",
            methods.RESOURCE_TEMPLATES_LIST,
            max_pages,
            options,
        )

    def resource_template_pages(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        max_pages: int = MAX_PAGES,
        **options: Unpack[RequestOptions],
    ) -> Pages[ListResourceTemplatesResult]:
        """The pages of the server's resource templates; otherwise as `tool_pages`."""
        return self._pages(
            ListResourceTemplatesResult, methods.RESOURCE_TEMPLATES_LIST, cursor, max_pages, options
        )

    async def all_prompts(
        self, *, max_pages: int = MAX_PAGES, **options: Unpack[RequestOptions]
    ) -> tuple[Prompt, ...]:
        """All prompts of the server, from all pages; otherwise as `all_tools`."""
        return await self._all(ListPromptsResult, "prompts", methods.PROMPTS_LIST, max_pages, options)

    def prompt_pages(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        max_pages: int = MAX_PAGES,
        **options: Unpack[RequestOptions],
    ) -> Pages[ListPromptsResult]:
        """The pages of the server's prompts; otherwise as `tool_pages`."""
        return self._pages(ListPromptsResult, methods.PROMPTS_LIST, cursor, max_pages, options)

    def _pages(
        self,
        cls: type[P],
        method: str,
        cursor: str | UnsetType,
        max_pages: int,
        options: RequestOptions,
    ) -> Pages[P]:
        async def ask(at: str | UnsetType) -> P:
            return cast(P, await self._call(cls, method, _page(at), False, options))

        return Pages(ask, method=method, server=self.name, cursor=cursor, max_pages=max_pages)

    async def _all(
        self, cls: type[Any], member: str, method: str, max_pages: int, options: RequestOptions
    ) -> tuple[Any, ...]:
        timeout = options.get("timeout", DEFAULT)
        if timeout is DEFAULT:
            timeout = self._supervisor.options.request_timeout
        else:
            check_limit("timeout", timeout)

        async def ask(at: str | UnsetType, left: float | None) -> Any:
            return await self._call(cls, method, _page(at), False, {**options, "timeout": left})

        return await collect_pages(
            ask,
            operator.attrgetter(member),
            method=method,
            server=self.name,
            max_pages=max_pages,
            timeout=timeout,
        )


def _page(cursor: str | UnsetType) -> dict[str, Any]:
    return {} if cursor is UNSET else {"cursor": cursor}
