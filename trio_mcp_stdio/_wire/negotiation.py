"""The negotiation: which revision both sides speak.  A state machine without a clock.

The driver carries out each step it is handed and reports what became of it:

    Probe       send `server/discover` at `version`
    Initialize  send `initialize` with `version`; an open probe stays open
    AwaitProbe  `initialize` was refused while the probe is still unanswered: wait for that, bounded
    Ready       done; a LEGACY outcome still needs `notifications/initialized`
    Incompatible  done: raise

A report may return None: go on waiting.  Nothing of the negotiation is ever cancelled on the wire.

Evidence, in the order of its weight (specification, stdio: Backward Compatibility):

* once `initialize` is written its answer decides, since a server pins its session to it: a result means
  legacy, even after a late DiscoverResult; an error means modern if the probe was answered with a
  DiscoverResult, or if the error is itself a modern one;
* a DiscoverResult, or an error that only a modern server can send, means modern.  From then on
  `initialize` is no fallback; it is sent only when the server itself lists a legacy version;
* any other error to the probe, whatever its code, any other result, and silence mean legacy.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from .._errors import string_list
from . import methods
from .methods import Era

__all__ = ["AwaitProbe", "Incompatible", "Initialize", "Negotiation", "Probe", "Ready", "Step"]


@attrs.frozen
class Probe:
    """Send `server/discover` at this version."""

    version: str


@attrs.frozen
class Initialize:
    """Send `initialize` asking for this version."""

    version: str


@attrs.frozen
class AwaitProbe:
    """Send nothing; give the open probe a last bounded wait."""


@attrs.frozen(eq=False)
class Ready:
    """Agreed.  `result` is the DiscoverResult or the initialize result, empty when the probe was left out."""

    era: Era
    version: str
    result: Mapping[str, Any]


@attrs.frozen(eq=False)
class Incompatible:
    """No common revision.  `error` is the code, message and data of the server's error, if there was one."""

    reason: str
    phase: Literal["probe", "initialize"]
    supported: Sequence[str]
    attempted: Sequence[str]
    error: tuple[int, str, Any] | None = None


Step: TypeAlias = Probe | Initialize | AwaitProbe | Ready | Incompatible


class _State(enum.Enum):
    NEW = enum.auto()
    PROBING = enum.auto()
    INITIALIZING = enum.auto()
    AWAITING_PROBE = enum.auto()
    DONE = enum.auto()


class Negotiation:
    """One negotiation with one process.

    Args:
        mode: "auto", "modern" (never sends `initialize`) or "legacy" (never probes).
        probe: False lets a modern client go ahead without asking.
        remembered: era of an earlier connection to the same server; legacy spares the probe, and is
            re-probed if it proves wrong.
        modern, legacy: versions this side speaks, most preferred first.
    """

    def __init__(
        self,
        *,
        mode: Literal["auto", "modern", "legacy"] = "auto",
        probe: bool = True,
        remembered: Era | None = None,
        modern: Sequence[str] = methods.MODERN_VERSIONS,
        legacy: Sequence[str] = methods.LEGACY_VERSIONS,
    ) -> None:
        self._mode = mode
        self._probe = probe
        self._remembered = remembered
        self._modern = modern
        self._legacy = legacy
        self._state = _State.NEW
        self._attempted: list[str] = []
        self._probe_open = False  # a probe is unanswered
        self._rejected_version = False  # one -32022 was acted on
        self._discovered: Ready | Incompatible | None = None  # what a late DiscoverResult amounts to
        self._refusal: Incompatible | None = None  # of initialize, while the probe is open

    @property
    def phase(self) -> Literal["probe", "initialize"]:
        """What a failure now would be a failure of."""
        return "initialize" if self._state is _State.INITIALIZING else "probe"

    @property
    def is_legacy(self) -> bool:
        """Whether nothing but the legacy era can come of it any more."""
        return self._state is _State.INITIALIZING and not self._probe_open and self._discovered is None

    @property
    def attempted(self) -> tuple[str, ...]:
        """Versions asked for so far."""
        return tuple(self._attempted)

    def start(self) -> Step:
        """The first step."""
        if self._mode == "legacy" or (self._mode == "auto" and self._remembered is Era.LEGACY):
            return self._initialize(self._legacy[0])
        if self._probe:
            return self._send_probe(self._modern[0])
        return self._done(Ready(Era.MODERN, self._modern[0], {}))

    def on_result(self, step: Probe | Initialize, result: Mapping[str, Any]) -> Step | None:
        """A step was answered with a result."""
        if isinstance(step, Initialize):
            return self._on_initialized(result)
        self._probe_open = False
        supported = result.get("supportedVersions")
        if not isinstance(supported, list) or not all(isinstance(v, str) for v in supported):
            # Neither a DiscoverResult nor an error: an old server that answers anything.
            return self._probe_says_legacy("the answer to server/discover is no DiscoverResult", None)
        version = _first_common(self._modern, supported)
        if version is not None:
            verdict: Ready | Incompatible = Ready(Era.MODERN, version, result)
        else:
            verdict = self._incompatible("no common protocol version", supported)
        if self._state is not _State.PROBING:
            self._discovered = verdict
            return self._done(verdict) if self._state is _State.AWAITING_PROBE else None
        if version is None:
            return self._listed_legacy(supported) or self._done(verdict)
        return self._done(verdict)

    def on_error(self, step: Probe | Initialize, code: int, message: str, data: Any) -> Step | None:
        """A step was answered with a JSON-RPC error."""
        error = (code, message, data)
        if isinstance(step, Initialize):
            return self._on_initialize_refused(error)
        self._probe_open = False
        if not _is_modern_error(code, data):
            return self._probe_says_legacy("the server does not know server/discover", error)
        if self._state is _State.INITIALIZING:
            return None  # the answer to initialize decides
        if code == methods.UNSUPPORTED_VERSION:
            return self._on_version_rejected(error)
        return self._done(self._incompatible("the server refuses this client", (), error))

    def on_timeout(self, step: Probe | AwaitProbe) -> Step | None:
        """The step's own wait has passed.  `initialize` has none: only the start-up limit ends that."""
        if isinstance(step, AwaitProbe):
            assert self._refusal is not None
            return self._done(self._refusal)
        if self._state is not _State.PROBING or self._mode == "modern" or self._rejected_version:
            return None  # with a server known to be modern, or a client that is, one can only wait on
        return self._fall_back("the server does not answer", None)

    # --- evidence ---

    def _on_initialized(self, result: Mapping[str, Any]) -> Step:
        version = result.get("protocolVersion")
        if isinstance(version, str) and version in self._legacy:
            return self._done(Ready(Era.LEGACY, version, result))
        speaks = f"this client speaks {', '.join(self._legacy)}"
        if isinstance(version, str):
            reason = f"the server answered initialize with protocol version {version!r}; {speaks}"
        else:
            reason = f"the server answered initialize without a protocolVersion; {speaks}"
        return self._done(self._incompatible(reason, (version,) if isinstance(version, str) else ()))

    def _on_initialize_refused(self, error: tuple[int, str, Any]) -> Step:
        code, _, data = error
        if self._discovered is not None:
            return self._done(self._discovered)
        if code == methods.UNSUPPORTED_VERSION and _is_modern_error(code, data):
            return self._on_version_rejected(error)
        if self._remembered is Era.LEGACY and self._mode == "auto" and not self._probe_sent:
            return self._send_probe(self._modern[0])  # the remembered era proves wrong
        refusal = self._incompatible("the server refused initialize", string_list(data, "supported"), error)
        if self._probe_open:
            self._refusal = refusal
            self._state = _State.AWAITING_PROBE
            return AwaitProbe()
        return self._done(refusal)

    def _on_version_rejected(self, error: tuple[int, str, Any]) -> Step:
        """-32022 with a list of versions: a modern server, which is asked once more at one of them."""
        supported = string_list(error[2], "supported")
        version = None if self._mode == "legacy" else _first_common(self._modern, supported)
        if version is not None and not self._rejected_version:
            self._rejected_version = True
            return self._send_probe(version)
        if version is None:
            step = self._listed_legacy(supported)
            if step is not None:
                return step
        reason = "no common protocol version"
        if version is not None:
            reason = "the server keeps refusing a version that it lists"
        return self._done(self._incompatible(reason, supported, error))

    def _probe_says_legacy(self, reason: str, error: tuple[int, str, Any] | None) -> Step | None:
        if self._state is _State.INITIALIZING:
            return None
        if self._state is _State.AWAITING_PROBE:
            assert self._refusal is not None
            return self._done(self._refusal)
        return self._fall_back(reason, error)

    def _fall_back(self, reason: str, error: tuple[int, str, Any] | None) -> Step:
        """`initialize` after a probe, unless that is ruled out, or was refused before."""
        version = self._legacy[0]
        if self._mode == "modern":
            reason = f"the server is not modern: {reason}"
        elif self._rejected_version:
            reason = f"the server is modern by its first answer, but: {reason}"
        elif version in self._attempted:
            reason = f"the server refused initialize, and is not modern: {reason}"
        else:
            return self._initialize(version)
        return self._done(self._incompatible(reason, (), error))

    def _listed_legacy(self, supported: Sequence[str]) -> Step | None:
        """`initialize` with a version that the server itself lists, unless it was refused already."""
        version = _first_common([v for v in self._legacy if v not in self._attempted], supported)
        return None if version is None or self._mode == "modern" else self._initialize(version)

    # --- steps ---

    @property
    def _probe_sent(self) -> bool:
        return any(version in self._modern for version in self._attempted)

    def _send_probe(self, version: str) -> Probe:
        self._state = _State.PROBING
        self._probe_open = True
        self._attempted.append(version)
        return Probe(version)

    def _initialize(self, version: str) -> Initialize:
        self._state = _State.INITIALIZING
        self._attempted.append(version)
        return Initialize(version)

    def _done(self, verdict: Ready | Incompatible) -> Ready | Incompatible:
        self._state = _State.DONE
        return verdict

    def _incompatible(
        self, reason: str, supported: Sequence[str], error: tuple[int, str, Any] | None = None
    ) -> Incompatible:
        return Incompatible(reason, self.phase, tuple(supported), self.attempted, error)


def _is_modern_error(code: int, data: Any) -> bool:
    """Whether only a server of a modern revision can have sent this error: a closed list."""
    if code == methods.UNSUPPORTED_VERSION:
        return bool(string_list(data, "supported"))
    if code == methods.MISSING_CAPABILITY:
        return isinstance(data, Mapping) and isinstance(data.get("requiredCapabilities"), Mapping)
    return code == methods.HEADER_MISMATCH  # its data has no defined shape


def _first_common(preferred: Sequence[str], offered: Sequence[str]) -> str | None:
    return next((version for version in preferred if version in offered), None)
