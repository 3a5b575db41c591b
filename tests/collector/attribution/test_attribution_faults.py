"""A process over which attribution trips is unknown; everybody else's GPUs are attributed as ever."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from collector.attribution import Attribution, effective
from collector.attribution_faults import EachAlone
from collector.model import (
    ClaimSource,
    Process,
)
from collector.reading import Reading
from tests.collector.attribution.test_attribution_cases import GPUS, given, held, key, on, process


def no_project_of_eve(user: str) -> None:
    if user == "eve":
        raise OverflowError("eve's groups do not fit")


def tripping(readings: Sequence[Reading], now_ms: int) -> Attribution | None:
    return effective(readings, now_ms, project_of=no_project_of_eve)


def reading(*processes: Process, gpus: int = 4) -> Reading:
    samples = tuple(sample for each in processes for sample in on(each.key.pid % 4, each.key.pid))
    return Reading(
        source="nvml",
        at_ms=1,
        gpus=tuple(GPUS[:gpus]),
        processes=processes,
        process_samples=samples,
        allocations=(given(3, "slurm:5", ClaimSource.SLURM, user="bob"),),
    )


def test_one_process_that_trips_attribution_is_unknown_and_said(caplog: pytest.LogCaptureFixture) -> None:
    attribute = EachAlone(tripping)
    seen = [reading(process(72, "ann"), process(73, "eve"), process(71, "bob"))]
    with pytest.raises(OverflowError):
        tripping(seen, 7)
    with caplog.at_level(logging.ERROR):
        found, again = attribute(seen, 7), attribute(seen, 8)
    assert found is not None and again is not None
    assert held(found) == {
        "GPU-0": [("pid:gpu1.lab.example/72@720", "process")],
        "GPU-1": [("pid:gpu1.lab.example/73@730", "process")],
        "GPU-3": [("slurm:5", "slurm")],
    }
    assert found.owners == {key(71): "slurm:5", key(72): "pid:gpu1.lab.example/72@720"}
    assert found.unknown == {key(73)} and found.intrusions == ()
    assert found.unclear == ((key(73), 'a fault in Fallow: OverflowError("eve\'s groups do not fit")'),)
    assert replace(again, at_ms=7) == found
    assert [each.getMessage() for each in caplog.records] == [
        "process 73 on gpu1.lab.example is unknown: its description could not be attributed"
    ]
    assert caplog.records[0].exc_info, "with the traceback, once"


def test_a_process_that_is_described_otherwise_is_looked_at_again() -> None:
    attribute = EachAlone(tripping)
    attribute([reading(process(73, "eve"))], 7)
    found = attribute([reading(process(73, "ann"))], 8)
    assert found is not None and found.unclear == ()
    assert found.owners == {key(73): "pid:gpu1.lab.example/73@730"}


def test_a_fault_that_no_process_sets_off_leaves_what_was_held(caplog: pytest.LogCaptureFixture) -> None:
    attribute = EachAlone(tripping)
    claimed = replace(
        reading(process(72, "ann")), allocations=(given(0, "slurm:9", ClaimSource.SLURM, "eve"),)
    )
    assert attribute([claimed], 7) is None
    assert attribute([claimed], 8) is None
    assert len([each for each in caplog.records if "attribution failed" in each.getMessage()]) == 1
    found = attribute([reading(process(72, "ann"))], 9)
    assert found is not None and found.unknown == frozenset()
