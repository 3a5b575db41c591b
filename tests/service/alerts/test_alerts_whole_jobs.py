"""One case a job: it uses a part of its GPUs, or works unevenly; never one a GPU."""

from dataclasses import replace

import pytest

from advisor.model import ActionClass, Use
from analytics.model import FindingKind, Unknown
from service.alerts.model import WORTH_A_WORD, AlertKind
from service.alerts.rules import sight
from service.config.alerting import AlertsConfig
from tests.service.alerts.alert_parts import ANN, GPUS, facts, finding, job, state

CONFIG = AlertsConfig()
FOUR = {ANN: GPUS}
WORKING = replace(job(), use=Use.ACTIVE, idle_since_ms=None, idle_gpu_hours=None)
BOTH = [(AlertKind.USES_PART, FindingKind.USES_PART), (AlertKind.STRAGGLER, FindingKind.STRAGGLER)]


@pytest.mark.parametrize(("kind", "of"), BOTH)
def test_a_job_is_one_case_with_the_findings_sentence(kind: AlertKind, of: FindingKind) -> None:
    idle = [finding(FindingKind.ALLOCATED_EMPTY, uuid) for uuid in GPUS[1:]]
    seen = sight(facts(state(WORKING, on=FOUR), finding(of, GPUS[1]), *idle), CONFIG, ())
    key = f"{kind.value}:{ANN}"
    assert list(seen.holds) == [key]
    case = seen.holds[key]
    assert (case.level, case.job, case.gpus) == (WORTH_A_WORD, ANN, GPUS)
    assert case.says == finding(of, GPUS[1]).sentence
    assert "Fallow takes no GPU" in case.next or "Fallow does nothing" in case.next


@pytest.mark.parametrize(("kind", "of"), BOTH)
def test_it_is_over_when_it_is_so_no_more_and_open_while_a_gpu_is_not_judged(
    kind: AlertKind, of: FindingKind
) -> None:
    key = f"{kind.value}:{ANN}"
    world = state(WORKING, on=FOUR)
    assert key in sight(facts(world), CONFIG, (key,)).calm
    dark = Unknown(uuid=GPUS[2], kinds=(of,), reason="its newest sample is 3 min old")
    assert key in sight(facts(world, unknown=(dark,)), CONFIG, (key,)).unknown
    assert sight(facts(state()), CONFIG, (key,)).calm[key] == "it holds no GPUs any more"


def test_who_wants_nothing_said_is_told_nothing() -> None:
    out = replace(WORKING, opted_out=frozenset({ActionClass.RECLAIM}))
    seen = sight(facts(state(out, on=FOUR), finding(FindingKind.USES_PART, GPUS[1])), CONFIG, ())
    assert not seen.holds and f"uses-part:{ANN}" in seen.calm
    off = replace(CONFIG, kinds=("held-idle",))
    assert not sight(facts(state(WORKING, on=FOUR), finding(FindingKind.USES_PART)), off, ()).holds
