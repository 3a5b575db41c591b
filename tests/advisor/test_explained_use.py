"""What ``fallow explain`` says a job does: never that it works where nobody measured it."""

from dataclasses import replace

import pytest

from advisor.explain import Decisions, job_facts
from advisor.planner.plan import Plan
from advisor.state.model import Telemetry, Use
from analytics.model import Analysis, Coverage, FindingKind, Unknown
from collector.model import GpuUuid
from tests.advisor.policies.scene import NOW_MS, cluster, gpu, hog, job, observed

OLD = Unknown(uuid=GpuUuid("g0"), kinds=(FindingKind.HELD_IDLE,), reason="its newest sample is 3 h old")
SEEN = Analysis(
    as_of_ms=NOW_MS, window_from_ms=NOW_MS, coverage=Coverage(ratio=1.0, gpus=1, silent_gpus=0), findings=()
)


def facts(use: Use, analysis: Analysis = SEEN, telemetry: Telemetry = Telemetry.GOOD) -> str:
    of = job("a", use=use)
    state = cluster([(of, ("g0",))], gpus=[gpu("g0", telemetry=telemetry)])
    said = Decisions(
        state=state, observed=observed(analysis=analysis), answers=(), plan=Plan(as_of_ms=NOW_MS)
    )
    return " ".join(job_facts(of, said))


@pytest.mark.parametrize("kind", [FindingKind.USES_PART, FindingKind.HELD_IDLE])
def test_who_leaves_a_part_idle_is_not_told_that_nothing_calls_it_idle(kind: FindingKind) -> None:
    (found,) = hog("a").findings
    part = replace(SEEN, findings=(replace(found, kind=kind, sentence="GPU 1 has done nothing."),))
    of = job("a", min_gpus=2, max_gpus=2)
    state = cluster([(of, ("g0", "g1"))])
    said = Decisions(state=state, observed=observed(analysis=part), answers=(), plan=Plan(as_of_ms=NOW_MS))
    told = " ".join(job_facts(of, said))
    assert "Nothing calls it idle" not in told
    assert "not all of its GPUs are in use." in told and "GPU 1 has done nothing." in told


@pytest.mark.parametrize(
    ("use", "analysis", "telemetry", "says"),
    [
        (
            Use.UNKNOWN,
            replace(SEEN, unknown=(OLD,)),
            Telemetry.UNKNOWN,
            "What it does is not known: its newest sample is 3 h old. Unknown is never idle.",
        ),
        (
            Use.UNKNOWN,
            SEEN,
            Telemetry.UNKNOWN,
            "What it does is not known: a GPU of it was not measured in the last 10 min.",
        ),
        (Use.UNKNOWN, replace(SEEN, overdue=True), Telemetry.GOOD, "nobody has judged it lately"),
        (
            Use.STARTING,
            SEEN,
            Telemetry.GOOD,
            "It counts as starting: nothing is called idle in its first half hour, and",
        ),
        (Use.ACTIVE, SEEN, Telemetry.GOOD, "Nothing calls it idle now: it works, or rests for less time"),
    ],
)
def test_what_it_does_is_said_as_far_as_it_is_known(
    use: Use, analysis: Analysis, telemetry: Telemetry, says: str
) -> None:
    assert says in facts(use, analysis, telemetry)
    assert "judged active" not in facts(use, analysis, telemetry)
