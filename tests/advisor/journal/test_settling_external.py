"""A pause of a foreign job that nobody saw the end of is settled by what the driver shows of it."""

import pytest

from advisor.actions import Action, Pause, Resume
from advisor.journal.records import ActionRecord, Moment, Result
from advisor.journal.recovery import PATIENCE_MS, Facts, settlement
from advisor.outcomes import Done, Failed, Late, Outcome
from collector.model import GpuUuid, JobId

JOB = JobId("pid:here/7@1")
PAUSE, RESUME = Pause(job=JOB), Resume(job=JOB, gpus=(GpuUuid("g"),))


def deed(step: Action) -> ActionRecord:
    return ActionRecord(
        number=3,
        plan=None,
        stood=None,
        begun=Moment(at_ms=1_000),
        job=JOB,
        verb="pause",
        actor="fallow",
        reason="",
        step=step,
    )


@pytest.mark.parametrize("step", [PAUSE, RESUME])
@pytest.mark.parametrize(
    ("shown", "result"),
    [(Done(note="it is off its GPUs"), Result.DONE), (Failed(found="it runs as before"), Result.FAILED)],
)
def test_what_the_driver_shows_settles_it(step: Action, shown: Outcome, result: Result) -> None:
    found = settlement(deed(step), Facts(seen=shown), Moment(at_ms=2_000))
    assert found is not None and found.result is result


@pytest.mark.parametrize("step", [PAUSE, RESUME])
def test_what_is_under_way_is_waited_for_and_then_handed_to_a_person(step: Action) -> None:
    under_way = Facts(seen=Late(found="its processes are locked"))
    assert settlement(deed(step), under_way, Moment(at_ms=1_000 + PATIENCE_MS - 1)) is None
    late = settlement(deed(step), under_way, Moment(at_ms=1_000 + PATIENCE_MS))
    assert late is not None and late.result is Result.UNKNOWN
    assert "its processes are locked" in late.found


@pytest.mark.parametrize("step", [PAUSE, RESUME])
def test_what_nobody_can_ask_about_is_handed_to_a_person_at_once(step: Action) -> None:
    found = settlement(deed(step), Facts(), Moment(at_ms=1_001))
    assert found is not None and found.result is Result.UNKNOWN
