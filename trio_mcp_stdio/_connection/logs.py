"""Log messages of the server: one sink for the connection, since on stdio they name no request."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, final, get_args

import attrs

from .._errors import LocalProtocolError
from .._io.callbacks import CallbackQueue
from .._wire import methods
from .._wire.convert import UNSET, JsonObject, Record, UnsetType
from .._wire.jsonrpc import encode_value
from ..types import LoggingLevel

__all__ = ["LogHandler", "LogMessage", "LogSink", "check_level", "with_level"]

MAX_LOG_TEXT: Final = 16 * 2**10
"""Characters of one log message that reach the standard logging."""

MAX_LOGGER_NAME: Final = 200
"""Characters of the name of its logger."""

LEVELS: Final[tuple[LoggingLevel, ...]] = get_args(LoggingLevel)

_STANDARD: Final[dict[LoggingLevel, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}

_client_logger = logging.getLogger("trio_mcp_stdio.client")


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class LogMessage(Record):
    """A log message of the server (server/utilities/logging).

    On stdio it does not tell which request it belongs to, so none is named.
    """

    level: LoggingLevel
    """Severity."""
    data: Any
    """What is logged: any JSON value."""
    logger: str | UnsetType = UNSET
    """Name of the server's logger."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


LogHandler: TypeAlias = Callable[[LogMessage], None] | Callable[[LogMessage], Awaitable[None]]


class LogSink:
    """Where the log messages of one connection go.

    Args:
        name: name of the server, for the logger.
        handler: the user's callback; None hands them to the standard logging.

    Attributes:
        received: messages that could be read.
        malformed: those that could not.
    """

    def __init__(self, name: str, handler: LogHandler | None) -> None:
        self._logger = logging.getLogger(f"trio_mcp_stdio.server.{name}")
        self._queue = CallbackQueue(
            self._log if handler is None else handler, what="log callback", logger=_client_logger
        )
        self.received = self.malformed = 0
        self.run = self._queue.run
        self.close = self._queue.close

    def __repr__(self) -> str:
        return f"<LogSink: {self.received} received, {self.malformed} malformed>"

    @property
    def dropped(self) -> int:
        """Messages that an asynchronous callback was too slow for."""
        return self._queue.dropped

    @property
    def errors(self) -> int:
        """Exceptions that the callback raised."""
        return self._queue.errors

    def receive(self, params: Mapping[str, Any], size: int = 0) -> None:
        """Take the parameters of one `notifications/message`.  Never blocks and never raises."""
        message = _read(params)
        if message is None:
            self.malformed += 1
        else:
            self.received += 1
            self._queue.put(message, size)

    def _log(self, message: LogMessage) -> None:
        level = _STANDARD[message.level]
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", _shown(message), extra={"mcp_message": message})


def check_level(level: object) -> LoggingLevel:
    """Return the level if it is one of the eight.

    Raises:
        LocalProtocolError: it is none.
    """
    if level not in LEVELS:
        raise LocalProtocolError(f"{level!r:.80} is not a log level; there are {', '.join(LEVELS)}")
    return level


def with_level(
    meta: Mapping[str, Any] | None, params: Mapping[str, Any] | None, level: LoggingLevel
) -> Mapping[str, Any]:
    """A request's own entries of `_meta` with the level added, unless they or its parameters have one."""
    own: Any = params.get("_meta") if params else None
    if meta and (not isinstance(meta, Mapping) or methods.META_LOG_LEVEL in meta):
        return meta  # what is no mapping is refused where it is encoded
    if isinstance(own, Mapping) and methods.META_LOG_LEVEL in own:
        return meta or {}
    return {methods.META_LOG_LEVEL: level, **(meta or {})}


def _read(params: Mapping[str, Any]) -> LogMessage | None:
    level, name, meta = params.get("level"), params.get("logger", UNSET), params.get("_meta", UNSET)
    if level not in LEVELS or "data" not in params or not isinstance(name, str | UnsetType):
        return None
    return LogMessage(
        level=level,
        data=params["data"],
        logger=name,
        meta=meta if isinstance(meta, dict) else UNSET,
    )


def _shown(message: LogMessage) -> str:
    """One line of printable text, so that no terminal obeys it and no line passes for another one."""
    data = message.data
    if not isinstance(data, str):
        data = encode_value(data).decode()
    text = _printable(data, MAX_LOG_TEXT)
    if not message.logger:
        return text
    return f"{_printable(message.logger, MAX_LOGGER_NAME)}: {text}"


def _printable(text: str, limit: int) -> str:
    cut = text[:limit]
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
    return cut if len(text) <= limit else f"{cut}… ({len(text)} characters)"
