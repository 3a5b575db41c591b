"""One case a job: it uses a part of its GPUs, or works unevenly; never one a GPU."""

from dataclasses import replace

import pytest

from advisor.state.model import ActionClass, Use
from analytics.model import Evidence, FindingKind, Unknown
from service.alerts.messages import Receiver, audience
from service.alerts.model import WORTH_A_WORD, AlertKind
from service.alerts.phrases import told
from service.alerts.rules import sight
from service.config.alerting import ASKED_KINDS, EVERY_KIND, AlertsConfig
from service.config.telling import DeliveryConfig
from tests.service.alerts.alert_parts import ANN, GPUS, HOUR_MS, NOW_MS, facts, finding, job, state

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


EVERYTHING = replace(CONFIG, kinds=EVERY_KIND)
STARTING = replace(WORKING, use=Use.STARTING)
OF_GPUS = {
    AlertKind.CRASH_LOOP: FindingKind.CRASH_LOOP,
    AlertKind.SLEEPING_BATCH: FindingKind.SLEEPING_BATCH,
    AlertKind.RARELY_USED: FindingKind.RARELY_USED,
    AlertKind.LOW_SATURATION: FindingKind.LOW_SATURATION,
    AlertKind.RESERVED_BY_DESIGN: FindingKind.RESERVED_BY_DESIGN,
}


@pytest.mark.parametrize(("kind", "of"), OF_GPUS.items())
def test_what_was_found_on_each_gpu_of_a_job_is_one_case(kind: AlertKind, of: FindingKind) -> None:
    each = [finding(of, uuid, wasted_gpu_hours=7.5) for uuid in GPUS]
    seen = sight(facts(state(WORKING, on=FOUR), *each), EVERYTHING, ())
    assert list(seen.holds) == [f"{kind.value}:{ANN}"]
    (case,) = seen.holds.values()
    assert case.says == f"{each[0].sentence} {each[1].sentence} The same on 2 more GPUs."


@pytest.mark.parametrize("kind", [AlertKind.CRASH_LOOP, AlertKind.SLEEPING_BATCH])
def test_what_never_computed_is_told_with_the_hours_it_cost_though_it_counts_as_starting(
    kind: AlertKind,
) -> None:
    each = [finding(OF_GPUS[kind], uuid, wasted_gpu_hours=7.5) for uuid in GPUS]
    seen = sight(facts(state(STARTING, on=FOUR), *each), CONFIG, ())
    (case,) = seen.holds.values()
    assert case.title.endswith(": 30.0 GPU-hours idle on 4 H100 (node1:0, node1:1, node1:2, node1:3)")
    assert [e.value for e in case.evidence if e.name == "idle_gpu_hours"] == [30.0]
    kept = replace(STARTING, keep_until_ms=NOW_MS + HOUR_MS)
    assert not sight(facts(state(kept, on=FOUR), *each), CONFIG, ()).holds


def test_a_job_of_which_a_part_is_not_known_is_not_told_that_its_end_helps() -> None:
    """As kept by the finding; without it the word of the kind is told."""
    dark = Evidence(name="unknown_gpus", value="GPU 5 of n (never measured)")
    case = {}
    for evidence in ((), (dark,)):
        found = finding(FindingKind.SLEEPING_BATCH, evidence=evidence)
        (case[evidence],) = sight(facts(state(STARTING, on=FOUR), found), CONFIG, ()).holds.values()
    assert "ending it gives its GPUs back" in case[()].next
    assert case[(dark,)].next == (
        "Fallow takes no GPU from it. First find out what it does on GPU 5 of n (never measured); until then "
        f"give back its idle GPUs alone, not the job, or keep it with `fallow keep {ANN}`."
    )


def test_what_helps_a_job_that_fills_little_is_what_its_work_is_limited_by() -> None:
    config = replace(CONFIG, kinds=(AlertKind.LOW_SATURATION.value,))
    told = {}
    for read in (0.1, 0.8):
        found = finding(
            FindingKind.LOW_SATURATION, evidence=(Evidence(name="memory_read_active_mean_ratio", value=read),)
        )
        (case,) = sight(facts(state(WORKING, on=FOUR), found), config, ()).holds.values()
        told[read] = case.next
    assert told[0.1].startswith("Fallow does nothing to it. More workers that load data,")
    assert told[0.8].startswith("Fallow does nothing to it. Its memory's bandwidth is its limit:")


def test_use_that_could_be_better_is_told_only_where_the_kind_is_named() -> None:
    for kind in ASKED_KINDS:
        world = facts(state(WORKING, on=FOUR), finding(FindingKind(kind)))
        assert not sight(world, CONFIG, ()).holds
        assert list(sight(world, replace(CONFIG, kinds=(kind,)), ()).holds) == [f"{kind}:{ANN}"]


def test_a_job_that_idles_is_told_once_with_what_was_found() -> None:
    loop = finding(FindingKind.CRASH_LOOP)
    key = f"crash-loop:{ANN}"
    seen = sight(facts(state(job()), loop), CONFIG, (key,))
    assert list(seen.holds) == [f"held-idle:{ANN}"] and key in seen.unknown
    assert seen.holds[f"held-idle:{ANN}"].says == loop.sentence


def test_memory_left_behind_is_one_case_a_machine_and_a_stranger_one_a_person() -> None:
    left = [finding(FindingKind.ZOMBIE_MEMORY, uuid, holder=None) for uuid in GPUS]
    on = [
        finding(FindingKind.INTRUDER, uuid, evidence=(Evidence(name="user", value="eve"),))
        for uuid in GPUS[:3]
    ]
    claim = finding(FindingKind.UNPROVEN_CLAIM, holder=None, evidence=(Evidence(name="user", value="mal"),))
    seen = sight(facts(state(), *left, *on, claim), CONFIG, ())
    titles = {key: case.title for key, case in seen.holds.items()}
    assert titles == {
        "zombie-memory:node1": "4 H100 (node1:0, node1:1, node1:2, node1:3) have memory that no process uses",
        "intruder:eve": "A process of eve is on 3 H100 (node1:0, node1:1, node1:2), which others were given",
        "unproven-claim:mal": "mal claims H100 node1:0 without a proof",
    }
    told = {
        audience(case, OPS, DeliveryConfig(people={"eve": "x", "mal": "x"})) for case in seen.holds.values()
    }
    assert told == {(Receiver(role="to", name="ops"),)}, "operators alone"
    dark = Unknown(uuid=GPUS[2], kinds=(FindingKind.INTRUDER,), reason="its newest sample is 3 min old")
    assert "intruder:eve" in sight(facts(state(), unknown=(dark,)), CONFIG, ("intruder:eve",)).unknown
    assert "intruder:eve" in sight(facts(state()), CONFIG, ("intruder:eve",)).calm


OPS = replace(CONFIG, to=("ops",))


def test_what_holds_no_memory_is_said_of_further_gpus_too() -> None:
    claim = finding(FindingKind.UNPROVEN_CLAIM, holder=None, evidence=(Evidence(name="user", value="mal"),))
    assert told((claim,) * 2).endswith(claim.sentence)
    assert told((claim,) * 3).endswith(" The same on 1 more GPU.")
    assert told((claim,) * 5, "3 GiB").endswith(" The same on 3 more GPUs, 3 GiB in all.")
