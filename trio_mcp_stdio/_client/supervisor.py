"""The supervisor: one task that owns a server from its launch to its reaped end.

    supervisor task
    └ incarnation: connect → ServiceNursery → negotiate → serve → shut down
       ├ pumps, shielded: stdin writer · stdout reader · stderr drain and exit watch · callbacks
       ├ watchdog of the calls' deadlines
       └ end watch: what ended the connection, told once its story is complete

The pumps are shielded and the supervisor is not, so a cancellation from outside reaches the supervisor
first, and the shutdown runs while stdout is still being drained: a server that is blocked writing its
last lines could otherwise never see the end of its input.
"""

from __future__ import annotations

import enum
import importlib
import logging
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, final

import attrs
import trio

from .._connection.logs import LogSink
from .._connection.loss import Loss
from .._connection.session import Session
from .._connection.transports import Endpoint, StdioServer, Transport
from .._errors import InvalidResult, LocalProtocolError, McpError, NegotiationError, RpcError, StartupTimeout
from .._io.callbacks import CallbackQueue
from .._io.nursery import ServiceNursery
from .._io.waiter import Waiter
from .._wire import methods
from .._wire.calls import Call, LostCall, TooLong
from .._wire.codec import lenient, unstructure
from .._wire.convert import UNSET, UnsetType
from .._wire.jsonrpc import Failure, Malformed, Success
from .._wire.methods import Era
from .._wire.negotiation import AwaitProbe, Incompatible, Initialize, Negotiation, Probe, Ready, Step
from ..types import Implementation, Notification, ProcessExit, ServerCapabilities
from .inputs import InputContext, InputRefused
from .options import ClientOptions

if TYPE_CHECKING:
    from .tracing import Tracing

__all__ = ["ClientState", "ServerDescription", "Supervisor"]

EOF_LIMIT: Final = 0.75
"""Seconds after the end of stdout for the exit and the end of stderr, before the calls fail without them."""

BROKEN_STDIN_LIMIT: Final = 0.5
"""Seconds for answers that are still on their way when stdin breaks."""

CALLBACK_LIMIT: Final = 1.0
"""Seconds for files and asynchronous callbacks to take what was read before the end."""

_logger = logging.getLogger("trio_mcp_stdio.client")


class ClientState(enum.Enum):
    """Where a client is in its life."""

    STARTING = "starting"
    """The server is being started, or the revision agreed on."""
    READY = "ready"
    """Calls are possible."""
    CLOSING = "closing"
    """The server is being shut down."""
    CLOSED = "closed"
    """This side ended the connection."""
    FAILED = "failed"
    """The server ended it, or never got as far."""


@final
@attrs.frozen(kw_only=True)
class ServerDescription:
    """What the server said of itself in the negotiation.

    Attributes:
        era: era of the connection.
        protocol_version: revision agreed on.
        info: name and version, for display only; None when it gave none that can be read.
        capabilities: what it announced; without a probe, nothing.
        instructions: its hints for the use of its tools.
        supported_versions: revisions it listed, empty in a legacy connection.
    """

    era: Era
    protocol_version: str
    info: Implementation | None
    capabilities: ServerCapabilities
    instructions: str | UnsetType = UNSET
    supported_versions: tuple[str, ...] = ()


class Supervisor:
    """Runs one server for one client.

    Attributes:
        state: where the client is in its life.
        session: the connection, None before the first.
        server: what the server said of itself, None before the negotiation has ended.
        exit: how the process ended, None before, and where there is none.
        closed: set when everything has ended.
        probed: whether the server was asked for its revision.
        tracing: records the requests, None when nobody asked for it.
    """

    def __init__(self, transport: Transport, options: ClientOptions) -> None:
        self.transport = transport
        self.options = options
        self.state = ClientState.STARTING
        self.session: Session | None = None
        self.server: ServerDescription | None = None
        self.exit: ProcessExit | None = None
        self.pid: int | None = None
        self.stderr_bytes: Callable[[], int] = int
        self.callback_errors: Callable[[], int] = int
        self.closed = trio.Event()
        self.probed = False
        self.notifications: CallbackQueue[Notification] | None = None
        self.logs: LogSink | None = None
        self.tracing = _load_tracing(transport) if options.tracing else None
        self._incarnation: _Incarnation | None = None

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Start the server, report `started` when it can be used, and end it when stopped or cancelled.

        Raises only what keeps the client from starting; later ends are told to the calls.
        """
        try:
            incarnation = await self._live(self.options.remembered, task_status)
            if incarnation.died_on_probe:
                # A legacy server may refuse a first line that is not `initialize` by exiting.  It is
                # started once more, and its second error is the one that counts.
                _logger.info("%s: exited on server/discover; starting it once more", self.transport.name)
                incarnation = await self._live(Era.LEGACY, task_status)
            if incarnation.failure is not None:
                raise incarnation.failure().about(
                    command=incarnation.command,
                    stderr_tail="" if self.exit is None else self.exit.stderr_tail,
                )
        finally:
            lost = self.session is None or self.session.loss is None or not self.session.loss.closed_here
            never_ready = self.server is None
            self.state = ClientState.FAILED if lost or never_ready else ClientState.CLOSED
            self.closed.set()

    async def _live(self, remembered: Era | None, task_status: trio.TaskStatus[None]) -> _Incarnation:
        # Nothing may be awaited between the connection and the `try` in `run`, or a process could leak.
        self._incarnation = incarnation = _Incarnation(self, await self.transport.connect())
        await incarnation.run(remembered, task_status.started)
        return incarnation

    def stop(self) -> None:
        """End the server and return; idempotent, synchronous, callable from any task of the run."""
        if self._incarnation is not None:
            self._incarnation.stop()


class _Incarnation:
    """One process, or one stream, from its connection to its end.

    Attributes:
        failure: makes the error that kept it from serving, None if it served or was stopped.
        died_on_probe: the process exited without answering the probe, and may be started once more.
    """

    def __init__(self, supervisor: Supervisor, endpoint: Endpoint) -> None:
        options, name = supervisor.options, supervisor.transport.name
        self._supervisor = supervisor
        self._endpoint = endpoint
        self._options = options
        self._name = name
        self._negotiation = Negotiation(mode=options.era, probe=options.probe, remembered=options.remembered)
        self._cause: Loss | None = None
        self._ending = trio.Event()
        self._over = trio.Event()
        self._pumps_ended = trio.Event()
        self._settled = False  # the negotiation has ended well
        self._detached = False  # the process ended before that, and something it started is the server
        self._notifications = (
            None
            if options.on_notification is None
            else CallbackQueue(options.on_notification, what="notification callback", logger=_logger)
        )
        self._logs = LogSink(name, options.on_log)
        self._session = Session(
            endpoint.stream,
            name=name,
            max_line_bytes=options.max_line_bytes,
            max_in_flight=options.max_in_flight,
            max_unsent_bytes=options.max_unsent_bytes,
            strict=options.strict,
            notifications=self._notifications,
            logs=self._logs,
            observer=options.on_wire,
            answer=self._answer,
            on_ending=self._signal_end,
        )
        self.failure: Callable[[], McpError] | None = None
        self.died_on_probe = False
        self.command = endpoint.command

        supervisor.session = self._session
        supervisor.notifications = self._notifications
        supervisor.logs = self._logs
        process, stderr = endpoint.process, endpoint.stderr
        supervisor.pid = None if process is None else process.pid
        if stderr is not None:
            supervisor.stderr_bytes = lambda: stderr.total
            supervisor.callback_errors = lambda: stderr.callback_errors

    async def run(self, remembered: Era | None, started: Callable[[], None]) -> None:
        """Live through it.  What kept it from serving is left in `failure`."""
        pumps = trio.CancelScope(shield=True)
        async with ServiceNursery() as nursery:
            self._session.dispatcher.nursery = nursery
            try:
                nursery.start_soon(self._run_pumps, pumps)
                nursery.start_soon(self._watch_end)
                nursery.start_soon(self._watch_exit)
                nursery.start_soon(self._session.watchdog.run)
                if await self._negotiate(remembered):
                    self._supervisor.state = ClientState.READY
                    self._set_log_level(nursery)
                    started()
                    await self._over.wait()
            finally:
                self._supervisor.state = ClientState.CLOSING
                with trio.CancelScope(shield=True):
                    await self._shut_down()
                pumps.cancel(reason="the server has ended")

    # --- tasks ---

    @trio.lowlevel.enable_ki_protection
    async def _run_pumps(self, scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._session.pump.run_writer)
                nursery.start_soon(self._session.pump.run_reader)
                nursery.start_soon(self._endpoint.run)
                nursery.start_soon(self._logs.run)
                if self._notifications is not None:
                    nursery.start_soon(self._notifications.run)
        self._pumps_ended.set()

    @trio.lowlevel.enable_ki_protection
    async def _watch_exit(self) -> None:
        """The end of the process is the end of the server, unless something it started is the server.

        After the negotiation a helper that merely holds stdout open is told from a server by its silence.
        """
        process, session = self._endpoint.process, self._session
        if process is None:
            return
        await process.exited.wait()
        if not self._settled:
            self._detached = True
            return
        heard = -1
        while heard != session.inbound.bytes_received and not session.stdout_ended.is_set():
            heard = session.inbound.bytes_received
            with trio.move_on_after(self._endpoint.exit_silence):
                await session.stdout_ended.wait()
        self._signal_end(Loss(reason="something it started still holds its stdout, in silence"))

    @trio.lowlevel.enable_ki_protection
    async def _watch_end(self) -> None:
        """Complete the story of what ended the connection, bounded, and only then fail the calls."""
        await self._ending.wait()
        loss, session, endpoint = self._cause, self._session, self._endpoint
        assert loss is not None
        phase = "serving" if self._settled else self._negotiation.phase
        if loss.fault is None:
            if not session.stdout_ended.is_set():
                with trio.move_on_after(BROKEN_STDIN_LIMIT):
                    await session.stdout_ended.wait()
            with trio.move_on_after(EOF_LIMIT):
                await endpoint.settle()
        session.lose(
            attrs.evolve(
                loss,
                exit=endpoint.exit_status(),
                phase=phase,
                command=endpoint.command,
                stderr_tail=self._stderr_tail(),
                noise=tuple(session.notes.noise_previews),
            )
        )
        self._over.set()

    def _signal_end(self, cause: Loss) -> None:
        if self._cause is None:
            self._cause = cause
            self._ending.set()
            if cause.fault is not None:
                # A fault of the peer needs no further story: nothing read after it counts.
                tail = self._stderr_tail()
                self._session.lose(attrs.evolve(cause, command=self.command, stderr_tail=tail))

    def _stderr_tail(self) -> str:
        stderr = self._endpoint.stderr
        return "" if stderr is None else stderr.tail()

    # --- the life ---

    def stop(self) -> None:
        """Stop serving."""
        self._over.set()

    async def _shut_down(self) -> None:
        session, endpoint = self._session, self._endpoint
        # Calls cancelled in the same tick as this task get to queue their notices first.
        await trio.lowlevel.cancel_shielded_checkpoint()
        session.lose(
            Loss(reason="the client was closed", phase="serving", command=endpoint.command, closed_here=True)
        )
        session.dispatcher.cancel_all()
        assert session.loss is not None
        closed_here = session.loss.closed_here
        if self._supervisor.tracing is not None:
            error = None if closed_here else session.loss.error(server=self._name)
            self._supervisor.tracing.end_session(error)
        if closed_here:
            with trio.move_on_after(endpoint.flush_limit):
                await session.pump.flush()
        exit = await endpoint.shut_down(
            close_stdin=session.pump.send_eof,
            stdout_ended=session.stdout_ended,
            detached=self._detached,
            expected=closed_here,
        )
        self._supervisor.exit = exit
        if self._notifications is not None:
            self._notifications.close()
        self._logs.close()
        # What was read before the end still reaches files and callbacks, as far as they keep up.
        with trio.move_on_after(CALLBACK_LIMIT):
            await self._pumps_ended.wait()
        if exit is not None:
            _logger.debug("%s: %r", self._name, exit)

    async def _answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a request of a legacy server."""
        server = self._supervisor.server
        context = InputContext(server=self._name, era=Era.LEGACY)
        version = methods.LEGACY_VERSIONS[0] if server is None else server.protocol_version
        try:
            return await self._options.inputs.answer(method, params, context, version)
        except InputRefused as refused:
            raise RpcError(refused.code, str(refused)) from None
        except InvalidResult as error:
            raise RpcError(methods.INVALID_PARAMS, f"malformed params: {'; '.join(error.problems)}") from None

    # --- the negotiation ---

    async def _negotiate(self, remembered: Era | None) -> bool:
        """Carry out the steps of the state machine; True when a revision was agreed on.

        Otherwise `failure` is set, and raised once the process has ended, when all is known.
        """
        options, session = self._options, self._session
        negotiation = self._negotiation = Negotiation(
            mode=options.era, probe=options.probe, remembered=remembered
        )
        waiter = Waiter()
        pending: list[tuple[Call, Probe | Initialize]] = []
        began = trio.current_time()
        limit = math.inf if options.startup_timeout is None else began + options.startup_timeout
        step: Step | None = negotiation.start()
        with trio.CancelScope(deadline=limit):
            while True:
                if isinstance(step, Ready):
                    for call, _ in pending:  # a probe that was never answered
                        session.table.abandon(call, "")
                        self._record_end(call)
                    self._agree(step)
                    return True
                if isinstance(step, Incompatible):
                    self.failure = self._incompatibility(step, began)
                    return False
                assert step is not None
                if not isinstance(step, AwaitProbe):
                    method, params = self._opening(step)
                    pending.append((self._open_call(method, params, waiter), step))
                if negotiation.is_legacy:
                    session.expect_legacy()
                patience = math.inf
                if not isinstance(step, Initialize):
                    patience = trio.current_time() + options.probe_timeout
                waited_for = step
                step = None
                while step is None:
                    answered = next((entry for entry in pending if entry[0].outcome is not None), None)
                    if answered is not None:
                        pending.remove(answered)
                        self._record_end(answered[0])
                        if self._ends_negotiation(*answered):
                            return False
                        step = self._report(negotiation, *answered)
                        continue
                    with trio.CancelScope(deadline=patience) as patient:
                        await waiter.wait()
                    if patient.cancelled_caught:
                        patience = math.inf
                        assert not isinstance(waited_for, Initialize)
                        step = negotiation.on_timeout(waited_for)
        timeout = options.startup_timeout
        assert timeout is not None
        phase, attempted = negotiation.phase, negotiation.attempted
        self.failure = lambda: StartupTimeout(
            timeout=timeout,
            phase=phase,
            attempted=attempted,
            exit=self._supervisor.exit,
            received=session.received_since(began),
            server=self._name,
        )
        return False

    def _opening(self, step: Probe | Initialize) -> tuple[str, dict[str, Any]]:
        if isinstance(step, Probe):
            return methods.DISCOVER, {"_meta": self._request_meta(step.version)}
        return methods.INITIALIZE, {
            "protocolVersion": step.version,
            "capabilities": self._announced(legacy=True),
            "clientInfo": unstructure(self._options.info),
        }

    def _announced(self, *, legacy: bool) -> dict[str, Any]:
        return unstructure(self._options.inputs.announce(self._options.capabilities, legacy=legacy))

    def _request_meta(self, version: str) -> dict[str, Any]:
        meta: dict[str, Any] = {
            methods.META_VERSION: version,
            methods.META_CAPABILITIES: self._announced(legacy=False),
        }
        if self._options.send_client_info:
            meta[methods.META_CLIENT_INFO] = unstructure(self._options.info)
        return meta

    def _report(self, negotiation: Negotiation, call: Call, step: Probe | Initialize) -> Step | None:
        outcome = call.outcome
        if isinstance(outcome, Failure):
            return negotiation.on_error(step, outcome.code, outcome.message, outcome.data)
        return negotiation.on_result(step, outcome.result if isinstance(outcome, Success) else {})

    def _ends_negotiation(self, call: Call, step: Probe | Initialize) -> bool:
        """Whether an outcome leaves nothing to negotiate: a lost connection, an unreadable answer."""
        outcome = call.outcome
        assert outcome is not None
        lost = isinstance(outcome, LostCall)
        unreadable = isinstance(outcome, (Malformed, TooLong)) and isinstance(step, Initialize)
        if not lost and not unreadable and not isinstance(outcome, TooLong):
            return False
        self.failure = lambda: self._session.error_for(call.method, outcome)
        if isinstance(outcome, LostCall):
            loss: Loss = outcome.why
            self.died_on_probe = (
                loss.exit is not None
                and not loss.closed_here
                and loss.phase == "probe"
                and self._options.era == "auto"
                and self._options.remembered is not Era.LEGACY
            )
        return True

    def _agree(self, ready: Ready) -> None:
        supervisor, session, result = self._supervisor, self._session, ready.result
        self._settled = True
        supervisor.probed = bool(result)
        if ready.era is Era.LEGACY:
            session.table.notify(methods.INITIALIZED, None)
            session.pump.kick()
            info = result.get("serverInfo")
        else:
            meta = result.get("_meta")
            info = meta.get(methods.META_SERVER_INFO) if isinstance(meta, dict) else None
        if supervisor.tracing is not None:
            supervisor.tracing.begin_session(ready.version)
        session.settle_era(
            ready.era, ready.version, self._request_meta(ready.version) if ready.era is Era.MODERN else {}
        )
        capabilities, instructions = result.get("capabilities"), result.get("instructions")
        supported = result.get("supportedVersions") if ready.era is Era.MODERN else None
        supervisor.server = ServerDescription(
            era=ready.era,
            protocol_version=ready.version,
            info=lenient(Implementation, info),
            capabilities=lenient(ServerCapabilities, capabilities) or ServerCapabilities(),
            instructions=instructions if isinstance(instructions, str) else UNSET,
            supported_versions=tuple(supported) if isinstance(supported, list) else (),
        )

    def _open_call(self, method: str, params: Mapping[str, Any], waiter: Waiter) -> Call:
        call = self._session.open_negotiation_call(method, params, waiter.wake)
        if self._supervisor.tracing is not None:
            self._supervisor.tracing.opened(call)
        return call

    def _record_end(self, call: Call) -> None:
        outcome = call.outcome
        if self._supervisor.tracing is not None and not isinstance(outcome, LostCall):
            error = None
            if outcome is not None and not isinstance(outcome, Success):
                error = self._session.error_for(call.method, outcome)
            self._supervisor.tracing.ended(call, error)

    def _set_log_level(self, nursery: trio.Nursery) -> None:
        """Ask a legacy server for the log messages wanted, before anything else is asked of it."""
        level, server, session = self._options.log_level, self._supervisor.server, self._session
        assert server is not None
        if level is None or server.era is Era.MODERN or session.loss is not None:
            return
        if server.capabilities.logging is UNSET:
            _logger.debug("%s: it announced no logging, so no log level is set", self._name)
            return
        waiter = Waiter()
        call = self._open_call(methods.SET_LEVEL, {"level": level}, waiter)
        nursery.start_soon(self._await_log_level, call, waiter)

    async def _await_log_level(self, call: Call, waiter: Waiter) -> None:
        limit = self._options.request_timeout
        with trio.CancelScope(deadline=math.inf if limit is None else trio.current_time() + limit):
            while call.outcome is None:
                await waiter.wait()
        if call.outcome is None:
            self._session.table.abandon(call, "")
        self._record_end(call)
        if not isinstance(call.outcome, (Success, LostCall)):
            _logger.warning("%s: it did not accept the log level", self._name)

    def _incompatibility(self, step: Incompatible, began: float) -> Callable[[], McpError]:
        def make() -> McpError:
            error = None
            if step.error is not None:
                method = methods.INITIALIZE if step.phase == "initialize" else methods.DISCOVER
                error = RpcError.from_wire(*step.error, method=method, server=self._name)
            phase: Literal["probe", "initialize"] = step.phase
            return NegotiationError(
                step.reason,
                supported=step.supported,
                attempted=step.attempted,
                phase=phase,
                error=error,
                received=self._session.received_since(began),
                server=self._name,
            )

        return make


def _load_tracing(transport: Transport) -> Tracing:
    """Load the module that records requests, whose import needs a package of an extra."""
    try:
        module = importlib.import_module(".tracing", __package__)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise LocalProtocolError(
            "ClientOptions(tracing=True) needs OpenTelemetry: install trio_mcp_stdio[otel]",
            server=transport.name,
        ) from error
    tracing: Tracing = module.Tracing("pipe" if isinstance(transport, StdioServer) else None)
    return tracing
