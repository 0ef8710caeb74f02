"""The negotiation as a state machine: every kind of answer to every step, without any I/O."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trio_mcp_stdio import Era
from trio_mcp_stdio._wire.negotiation import (
    AwaitProbe,
    Incompatible,
    Initialize,
    Negotiation,
    Probe,
    Ready,
    Step,
)

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
NEWEST = LEGACY[0]
FUTURE = "2099-01-01"

DISCOVERED = {"supportedVersions": [MODERN], "capabilities": {}}
INITIALIZED = {"protocolVersion": NEWEST, "capabilities": {}, "serverInfo": {}}


def rejected(*supported: str) -> tuple[int, str, Any]:
    return -32022, "Unsupported protocol version", {"supported": list(supported), "requested": MODERN}


UNKNOWN_METHOD = (-32601, "Method not found", None)
MISSING_CAPABILITY = (-32021, "Missing capability", {"requiredCapabilities": {"sampling": {}}})


def verdict(step: Step | None) -> tuple[Era, str]:
    assert isinstance(step, Ready)
    return step.era, step.version


def probing(**options: Any) -> tuple[Negotiation, Probe]:
    negotiation = Negotiation(**options)
    probe = negotiation.start()
    assert probe == Probe(MODERN)
    return negotiation, probe  # type: ignore[return-value]


def initializing_after_silence(**options: Any) -> tuple[Negotiation, Probe, Initialize]:
    negotiation, probe = probing(**options)
    initialize = negotiation.on_timeout(probe)
    assert initialize == Initialize(NEWEST)
    return negotiation, probe, initialize


# The first step


@pytest.mark.requirement("ERA-01", "ERA-02", "ERA-08", "ERA-10", "VER-08")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Probe(MODERN)),
        ({"remembered": Era.MODERN}, Probe(MODERN)),
        ({"remembered": Era.LEGACY}, Initialize(NEWEST)),
        ({"mode": "modern"}, Probe(MODERN)),
        ({"mode": "modern", "remembered": Era.LEGACY}, Probe(MODERN)),
        ({"mode": "legacy"}, Initialize(NEWEST)),
        ({"mode": "legacy", "remembered": Era.MODERN}, Initialize(NEWEST)),
        ({"mode": "modern", "probe": False}, (Era.MODERN, MODERN)),
        ({"modern": ("2027-01-01", MODERN)}, Probe("2027-01-01")),
        ({"mode": "legacy", "legacy": LEGACY[2:]}, Initialize(LEGACY[2])),
    ],
)
def test_first_step(options: dict[str, Any], expected: object) -> None:
    step = Negotiation(**options).start()
    assert (verdict(step) if isinstance(step, Ready) else step) == expected


def test_without_a_probe_there_is_no_result() -> None:
    step = Negotiation(mode="modern", probe=False).start()
    assert isinstance(step, Ready)
    assert step.result == {}


# What the probe yields


@pytest.mark.requirement("ERA-03")
@pytest.mark.parametrize("supported", [[MODERN], [FUTURE, MODERN], [*LEGACY, MODERN], [MODERN, MODERN]])
def test_discover_result_with_a_common_version_is_modern(supported: list[str]) -> None:
    negotiation, probe = probing()
    result = {"supportedVersions": supported, "x": 1}
    step = negotiation.on_result(probe, result)
    assert verdict(step) == (Era.MODERN, MODERN)
    assert isinstance(step, Ready)
    assert step.result is result


def test_highest_common_version_is_taken() -> None:
    negotiation = Negotiation(modern=("2028-01-01", "2027-01-01", MODERN))
    probe = negotiation.start()
    assert isinstance(probe, Probe)
    step = negotiation.on_result(probe, {"supportedVersions": [MODERN, "2027-01-01"]})
    assert verdict(step) == (Era.MODERN, "2027-01-01")


@pytest.mark.requirement("ERA-04", "ERA-20", "VER-06")
@pytest.mark.parametrize("mode", ["auto", "modern"])
@pytest.mark.parametrize("supported", [[], [FUTURE], [FUTURE, "", "2026-07-28 "]])
def test_discover_result_without_a_common_version_is_no_reason_to_initialize(
    mode: str, supported: list[str]
) -> None:
    negotiation, probe = probing(mode=mode)
    step = negotiation.on_result(probe, {"supportedVersions": supported})
    assert isinstance(step, Incompatible)
    assert (step.supported, step.attempted, step.phase) == (tuple(supported), (MODERN,), "probe")


@pytest.mark.requirement("ERA-20")
@pytest.mark.parametrize(
    ("supported", "expected"),
    [
        (LEGACY, NEWEST),
        (LEGACY[::-1], NEWEST),
        ([LEGACY[3], LEGACY[2]], LEGACY[2]),
        ([FUTURE, LEGACY[1]], LEGACY[1]),
    ],
)
@pytest.mark.parametrize("as_error", [False, True])
def test_only_legacy_versions_listed(supported: list[str], expected: str, as_error: bool) -> None:
    negotiation, probe = probing()
    if as_error:
        step = negotiation.on_error(probe, *rejected(*supported))
    else:
        step = negotiation.on_result(probe, {"supportedVersions": list(supported)})
    assert step == Initialize(expected)
    done = negotiation.on_result(step, {"protocolVersion": expected})
    assert verdict(done) == (Era.LEGACY, expected)


@pytest.mark.requirement("ERA-08", "ERA-20")
def test_only_legacy_versions_listed_for_a_modern_client() -> None:
    for as_error in (False, True):
        negotiation, probe = probing(mode="modern")
        if as_error:
            step = negotiation.on_error(probe, *rejected(*LEGACY))
        else:
            step = negotiation.on_result(probe, {"supportedVersions": list(LEGACY)})
        assert isinstance(step, Incompatible)
        assert step.supported == LEGACY


MALFORMED_RESULTS: list[dict[str, Any]] = [
    {},
    {"tools": []},
    {"supportedVersions": None},
    {"supportedVersions": MODERN},
    {"supportedVersions": {MODERN: True}},
    {"supportedVersions": [MODERN, 1]},
    {"protocolVersion": NEWEST},
]


@pytest.mark.requirement("ERA-05")
@pytest.mark.parametrize("result", MALFORMED_RESULTS)
def test_other_result_is_a_legacy_server_that_answers_anything(result: dict[str, Any]) -> None:
    negotiation, probe = probing()
    assert negotiation.on_result(probe, result) == Initialize(NEWEST)


@pytest.mark.requirement("VER-05")
def test_rejected_version_is_replaced_by_a_listed_one() -> None:
    negotiation = Negotiation(modern=("2027-01-01", MODERN))
    first = negotiation.start()
    assert isinstance(first, Probe)
    second = negotiation.on_error(first, *rejected(MODERN))
    assert second == Probe(MODERN)
    assert verdict(negotiation.on_result(second, DISCOVERED)) == (Era.MODERN, MODERN)
    assert negotiation.attempted == ("2027-01-01", MODERN)


@pytest.mark.requirement("ERA-04", "VER-05")
@pytest.mark.parametrize("supported", [[MODERN], [MODERN, *LEGACY], [FUTURE, MODERN]])
def test_second_rejection_is_an_error(supported: list[str]) -> None:
    negotiation, probe = probing()
    again = negotiation.on_error(probe, *rejected(*supported))
    assert again == Probe(MODERN)
    step = negotiation.on_error(again, *rejected(*supported))
    assert isinstance(step, Incompatible)
    assert step.supported == tuple(supported)
    assert step.error == rejected(*supported)


@pytest.mark.requirement("ERA-04")
@pytest.mark.parametrize("how", ["timeout", "error", "result"])
@pytest.mark.parametrize("first", ["probe", "initialize"])
def test_rejection_stays_modern_evidence_whatever_the_second_probe_brings(first: str, how: str) -> None:
    negotiation = Negotiation(remembered=Era.LEGACY if first == "initialize" else None)
    opening = negotiation.start()
    assert isinstance(opening, (Probe, Initialize))
    again = negotiation.on_error(opening, *rejected(MODERN))
    assert isinstance(again, Probe)
    if how == "timeout":
        step = negotiation.on_timeout(again)
    elif how == "error":
        step = negotiation.on_error(again, *UNKNOWN_METHOD)
    else:
        step = negotiation.on_result(again, {"tools": []})
    assert not isinstance(step, Initialize)


@pytest.mark.requirement("ERA-04", "VER-06")
@pytest.mark.parametrize("mode", ["auto", "modern"])
@pytest.mark.parametrize("supported", [[FUTURE], [FUTURE, "x"]])
def test_rejection_without_a_common_version(mode: str, supported: list[str]) -> None:
    negotiation, probe = probing(mode=mode)
    step = negotiation.on_error(probe, *rejected(*supported))
    assert isinstance(step, Incompatible)
    assert (step.supported, step.attempted) == (tuple(supported), (MODERN,))
    assert step.error == rejected(*supported)


@pytest.mark.requirement("ERA-04")
@pytest.mark.parametrize("mode", ["auto", "modern"])
@pytest.mark.parametrize(
    "error",
    [
        MISSING_CAPABILITY,
        (-32021, "x", {"requiredCapabilities": {}}),
        (-32020, "header mismatch", None),
        (-32020, "header mismatch", {"header": "x"}),
    ],
)
def test_other_modern_error_never_leads_to_initialize(mode: str, error: tuple[int, str, Any]) -> None:
    negotiation, probe = probing(mode=mode)
    step = negotiation.on_error(probe, *error)
    assert isinstance(step, Incompatible)
    assert step.error == error


LEGACY_ERRORS: list[tuple[int, str, Any]] = [
    *[
        (code, "x", data)
        for code in (-32601, -32602, -32600, -32603, -32700, -32000, -32001, -32003, -32004, -32019, -32002)
        for data in (None, {"supported": [MODERN]}, {"requiredCapabilities": {}})
    ],
    *[(code, "x", None) for code in (-32042, -32023, -32099, -32768, 0, 1, 404, -1, 2**40)],
    # codes of modern errors without what belongs to them
    *[
        (-32022, "x", data)
        for data in (None, {}, [], "x", {"supported": None}, {"supported": []}, {"supported": MODERN})
    ],
    (-32022, "x", {"supported": [MODERN, 1]}),
    *[
        (-32021, "x", data)
        for data in (None, {}, {"requiredCapabilities": None}, {"requiredCapabilities": []})
    ],
]


@pytest.mark.requirement("ERA-05", "ERA-07")
@pytest.mark.parametrize("error", LEGACY_ERRORS, ids=str)
def test_any_other_error_is_legacy(error: tuple[int, str, Any]) -> None:
    negotiation, probe = probing()
    assert negotiation.on_error(probe, *error) == Initialize(NEWEST)


@pytest.mark.requirement("ERA-08")
@pytest.mark.parametrize("error", LEGACY_ERRORS, ids=str)
def test_any_other_error_fails_a_modern_client(error: tuple[int, str, Any]) -> None:
    negotiation, probe = probing(mode="modern")
    step = negotiation.on_error(probe, *error)
    assert isinstance(step, Incompatible)
    assert step.error == error
    assert "not modern" in step.reason


@pytest.mark.parametrize("result", MALFORMED_RESULTS)
def test_any_other_result_fails_a_modern_client(result: dict[str, Any]) -> None:
    negotiation, probe = probing(mode="modern")
    step = negotiation.on_result(probe, result)
    assert isinstance(step, Incompatible)
    assert "not modern" in step.reason


@pytest.mark.requirement("ERA-06")
def test_silence_is_legacy() -> None:
    negotiation, _, initialize = initializing_after_silence()
    assert verdict(negotiation.on_result(initialize, INITIALIZED)) == (Era.LEGACY, NEWEST)
    assert negotiation.attempted == (MODERN, NEWEST)


@pytest.mark.requirement("ERA-08")
def test_modern_client_waits_on_in_silence() -> None:
    negotiation, probe = probing(mode="modern")
    assert negotiation.on_timeout(probe) is None
    assert verdict(negotiation.on_result(probe, DISCOVERED)) == (Era.MODERN, MODERN)


# What initialize yields


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_version_of_the_initialize_result_is_used(mode: str, version: str) -> None:
    negotiation = Negotiation(mode=mode, remembered=Era.LEGACY)  # type: ignore[arg-type]
    initialize = negotiation.start()
    assert isinstance(initialize, Initialize)
    result = {"protocolVersion": version}
    step = negotiation.on_result(initialize, result)
    assert verdict(step) == (Era.LEGACY, version)
    assert isinstance(step, Ready)
    assert step.result is result


@pytest.mark.parametrize("version", [FUTURE, MODERN, "", "1.0", None, 20251125, ["2025-11-25"]])
def test_initialize_result_with_an_unknown_version(version: Any) -> None:
    negotiation = Negotiation(mode="legacy")
    initialize = negotiation.start()
    assert isinstance(initialize, Initialize)
    step = negotiation.on_result(initialize, {"protocolVersion": version})
    assert isinstance(step, Incompatible)
    assert step.phase == "initialize"
    assert step.attempted == (NEWEST,)
    assert step.supported == ((version,) if isinstance(version, str) else ())
    assert NEWEST in step.reason


def test_initialize_result_without_a_version() -> None:
    negotiation, _, initialize = initializing_after_silence()
    step = negotiation.on_result(initialize, {"capabilities": {}})
    assert isinstance(step, Incompatible)
    assert "without a protocolVersion" in step.reason


@pytest.mark.requirement("ERA-19")
@pytest.mark.parametrize(
    "late", [DISCOVERED, {"supportedVersions": [FUTURE]}, {"supportedVersions": list(LEGACY)}, {"tools": []}]
)
def test_success_of_initialize_decides_after_a_late_discover_result(late: dict[str, Any]) -> None:
    negotiation, probe, initialize = initializing_after_silence()
    assert negotiation.on_result(probe, late) is None
    assert verdict(negotiation.on_result(initialize, INITIALIZED)) == (Era.LEGACY, NEWEST)


@pytest.mark.requirement("ERA-19")
@pytest.mark.parametrize("error", [UNKNOWN_METHOD, MISSING_CAPABILITY, rejected(MODERN), rejected(FUTURE)])
def test_success_of_initialize_decides_after_a_late_error(error: tuple[int, str, Any]) -> None:
    negotiation, probe, initialize = initializing_after_silence()
    assert negotiation.on_error(probe, *error) is None
    assert verdict(negotiation.on_result(initialize, INITIALIZED)) == (Era.LEGACY, NEWEST)


@pytest.mark.requirement("ERA-19")
@pytest.mark.parametrize("error", [UNKNOWN_METHOD, (-32602, "x", None), rejected(MODERN), rejected(FUTURE)])
def test_error_of_initialize_after_a_late_discover_result_is_modern(error: tuple[int, str, Any]) -> None:
    negotiation, probe, initialize = initializing_after_silence()
    assert negotiation.on_result(probe, DISCOVERED) is None
    step = negotiation.on_error(initialize, *error)
    assert verdict(step) == (Era.MODERN, MODERN)
    assert isinstance(step, Ready)
    assert step.result is DISCOVERED


def test_error_of_initialize_after_a_late_discover_result_without_a_common_version() -> None:
    negotiation, probe, initialize = initializing_after_silence()
    assert negotiation.on_result(probe, {"supportedVersions": [FUTURE]}) is None
    step = negotiation.on_error(initialize, *UNKNOWN_METHOD)
    assert isinstance(step, Incompatible)
    assert step.supported == (FUTURE,)


@pytest.mark.requirement("ERA-04", "VER-05")
def test_rejected_version_in_reply_to_initialize_is_modern() -> None:
    negotiation, _, initialize = initializing_after_silence()
    again = negotiation.on_error(initialize, *rejected(MODERN))
    assert again == Probe(MODERN)
    assert verdict(negotiation.on_result(again, DISCOVERED)) == (Era.MODERN, MODERN)


def test_rejected_version_in_reply_to_initialize_names_another_legacy_version() -> None:
    negotiation, _, initialize = initializing_after_silence()
    step = negotiation.on_error(initialize, *rejected(NEWEST, LEGACY[2], LEGACY[1]))
    assert step == Initialize(LEGACY[1])


@pytest.mark.requirement("ERA-20")
@pytest.mark.parametrize("supported", [[LEGACY[1]], [MODERN, LEGACY[1]], [FUTURE, LEGACY[2], LEGACY[1]]])
def test_legacy_client_takes_a_listed_legacy_version(supported: list[str]) -> None:
    """What is common is common with this client, which speaks no modern version."""
    negotiation = Negotiation(mode="legacy")
    initialize = negotiation.start()
    assert isinstance(initialize, Initialize)
    assert negotiation.on_error(initialize, *rejected(*supported)) == Initialize(LEGACY[1])


@pytest.mark.requirement("VER-06")
@pytest.mark.parametrize("supported", [[MODERN], [FUTURE], [NEWEST]])
def test_legacy_client_never_probes(supported: list[str]) -> None:
    negotiation = Negotiation(mode="legacy")
    initialize = negotiation.start()
    assert isinstance(initialize, Initialize)
    step = negotiation.on_error(initialize, *rejected(*supported))
    assert isinstance(step, Incompatible)
    assert step.supported == tuple(supported)
    assert step.phase == "initialize"
    if supported != [NEWEST]:
        assert "no common" in step.reason


@pytest.mark.parametrize(
    "error", [UNKNOWN_METHOD, (-32602, "x", {"supported": [LEGACY[3]]}), MISSING_CAPABILITY]
)
def test_refused_initialize_after_an_answered_probe_is_the_end(error: tuple[int, str, Any]) -> None:
    negotiation, probe = probing()
    initialize = negotiation.on_error(probe, *UNKNOWN_METHOD)
    assert isinstance(initialize, Initialize)
    step = negotiation.on_error(initialize, *error)
    assert isinstance(step, Incompatible)
    assert (step.phase, step.attempted, step.error) == ("initialize", (MODERN, NEWEST), error)


# Both refused or silent


def test_refused_initialize_waits_for_the_open_probe() -> None:
    negotiation, _, initialize = initializing_after_silence()
    assert negotiation.on_error(initialize, *UNKNOWN_METHOD) == AwaitProbe()


@pytest.mark.parametrize("how", ["timeout", "error", "result"])
def test_refusal_stands_when_the_probe_brings_nothing(how: str) -> None:
    negotiation, probe, initialize = initializing_after_silence()
    step = negotiation.on_error(initialize, -32000, "go away", None)
    assert isinstance(step, AwaitProbe)
    if how == "timeout":
        done = negotiation.on_timeout(step)
    elif how == "error":
        done = negotiation.on_error(probe, *UNKNOWN_METHOD)
    else:
        done = negotiation.on_result(probe, {"tools": []})
    assert isinstance(done, Incompatible)
    assert (done.phase, done.error) == ("initialize", (-32000, "go away", None))


@pytest.mark.requirement("ERA-03")
def test_probe_answered_at_last_after_a_refusal() -> None:
    negotiation, probe, initialize = initializing_after_silence()
    assert negotiation.on_error(initialize, *UNKNOWN_METHOD) == AwaitProbe()
    assert verdict(negotiation.on_result(probe, DISCOVERED)) == (Era.MODERN, MODERN)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (rejected(MODERN), Probe(MODERN)),
        (rejected(LEGACY[1], NEWEST), Initialize(LEGACY[1])),
        (rejected(FUTURE), None),
        (MISSING_CAPABILITY, None),
    ],
)
def test_probe_refused_at_last_after_a_refusal(error: tuple[int, str, Any], expected: Step | None) -> None:
    negotiation, probe, initialize = initializing_after_silence()
    assert negotiation.on_error(initialize, *UNKNOWN_METHOD) == AwaitProbe()
    step = negotiation.on_error(probe, *error)
    if expected is None:
        assert isinstance(step, Incompatible)
        assert step.error == error
    else:
        assert step == expected


# A remembered era that proves wrong


@pytest.mark.requirement("ERA-10")
def test_remembered_legacy_is_probed_again_when_refused() -> None:
    negotiation = Negotiation(remembered=Era.LEGACY)
    initialize = negotiation.start()
    assert isinstance(initialize, Initialize)
    probe = negotiation.on_error(initialize, *UNKNOWN_METHOD)
    assert probe == Probe(MODERN)
    assert verdict(negotiation.on_result(probe, DISCOVERED)) == (Era.MODERN, MODERN)


@pytest.mark.requirement("ERA-10")
def test_remembered_legacy_meets_a_rejected_version() -> None:
    negotiation = Negotiation(remembered=Era.LEGACY)
    initialize = negotiation.start()
    assert isinstance(initialize, Initialize)
    probe = negotiation.on_error(initialize, *rejected(MODERN))
    assert probe == Probe(MODERN)
    assert verdict(negotiation.on_result(probe, DISCOVERED)) == (Era.MODERN, MODERN)


@pytest.mark.parametrize("how", ["timeout", "error", "result"])
def test_remembered_legacy_refused_and_no_modern_server_either(how: str) -> None:
    """Then nothing is left to try; the same `initialize` is not sent once more."""
    negotiation = Negotiation(remembered=Era.LEGACY)
    initialize = negotiation.start()
    assert isinstance(initialize, Initialize)
    probe = negotiation.on_error(initialize, *UNKNOWN_METHOD)
    assert isinstance(probe, Probe)
    if how == "timeout":
        step = negotiation.on_timeout(probe)
    elif how == "error":
        step = negotiation.on_error(probe, *UNKNOWN_METHOD)
    else:
        step = negotiation.on_result(probe, {"tools": []})
    assert isinstance(step, Incompatible)


@pytest.mark.requirement("ERA-10")
def test_remembered_modern_is_a_probe_like_any_other() -> None:
    negotiation, probe = probing(remembered=Era.MODERN)
    assert negotiation.on_error(probe, *UNKNOWN_METHOD) == Initialize(NEWEST)


# Any sequence of answers


VERSIONS = st.lists(st.sampled_from([MODERN, "2027-01-01", FUTURE, *LEGACY]), max_size=4)
ANSWERS = st.one_of(
    st.tuples(st.just("result"), VERSIONS.map(lambda v: {"supportedVersions": v})),
    st.tuples(
        st.just("result"), st.sampled_from([*MALFORMED_RESULTS, *[{"protocolVersion": v} for v in LEGACY]])
    ),
    st.tuples(st.just("result"), st.sampled_from([{"protocolVersion": FUTURE}, {"protocolVersion": MODERN}])),
    st.tuples(st.just("error"), VERSIONS.map(lambda v: rejected(*v))),
    st.tuples(st.just("error"), st.sampled_from([UNKNOWN_METHOD, MISSING_CAPABILITY, (-32020, "x", None)])),
    st.tuples(st.just("error"), st.sampled_from(LEGACY_ERRORS)),
)


@pytest.mark.requirement("ERA-04", "ERA-07", "ERA-20")
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(
    mode=st.sampled_from(["auto", "modern", "legacy"]),
    remembered=st.sampled_from([None, Era.MODERN, Era.LEGACY]),
    modern=st.sampled_from([(MODERN,), ("2027-01-01", MODERN)]),
    data=st.data(),
)
def test_any_sequence_ends_and_modern_evidence_is_never_ignored(
    mode: Any, remembered: Era | None, modern: tuple[str, ...], data: st.DataObject
) -> None:
    negotiation = Negotiation(mode=mode, remembered=remembered, modern=modern)
    step = negotiation.start()
    open_steps: list[Probe | Initialize] = []
    sent: list[Step] = []
    evidence = False  # a modern server has shown itself, to a client that was listening for it
    listed: set[str] = set()
    for _ in range(40):
        if isinstance(step, (Ready, Incompatible)):
            break
        if step is not None:
            sent.append(step)
            if isinstance(step, Initialize):
                assert mode != "modern"
                assert not evidence or step.version in listed
            if isinstance(step, Probe):
                assert mode != "legacy"
                assert step.version in modern
            if not isinstance(step, AwaitProbe):
                open_steps.append(step)
        last = sent[-1]
        may_time_out = step is not None and not isinstance(step, Initialize)
        if may_time_out and data.draw(st.booleans(), label="timeout"):
            assert isinstance(last, (Probe, AwaitProbe))
            step = negotiation.on_timeout(last)
            continue
        assert open_steps, "waits for nothing"
        answered = open_steps.pop(data.draw(st.integers(0, len(open_steps) - 1)))
        kind, value = data.draw(ANSWERS, label=str(answered))
        if kind == "result":
            supported = value.get("supportedVersions") if isinstance(answered, Probe) else None
            if isinstance(supported, list) and all(isinstance(item, str) for item in supported):
                evidence = True
                listed.update(supported)
            step = negotiation.on_result(answered, value)
        else:
            code, _, extra = value
            if code == -32022 and isinstance(extra, dict) and value[2].get("supported"):
                supported = extra["supported"]
                if isinstance(supported, list) and all(isinstance(item, str) for item in supported):
                    evidence = True
                    listed.update(supported)
            elif code == -32020 or (code == -32021 and value == MISSING_CAPABILITY):
                evidence = evidence or isinstance(answered, Probe)
            step = negotiation.on_error(answered, *value)
    else:
        pytest.fail("it does not end")
    if isinstance(step, Ready):
        assert step.version in (modern if step.era is Era.MODERN else LEGACY)
        assert mode in ("auto", step.era.value)
    else:
        assert step.reason
        assert step.attempted == negotiation.attempted
    # No initialize is repeated, and a probe at most once, at a version that the server has listed.
    initialized = [one.version for one in sent if isinstance(one, Initialize)]
    assert len(set(initialized)) == len(initialized)
    assert len([one for one in sent if isinstance(one, Probe)]) <= 2
