"""What ``fallow doctor`` says of a Slurm."""

from collector.managers.slurm.controller import Controller, Reach
from collector.managers.slurm.reader import SlurmManager
from service.doctor_checks.results import Verdict
from service.doctor_checks.slurm import engine_finding, nodes_finding, slurm_finding
from tests.collector.managers.slurm_world import SUBMITTED_S, Job, Node, World


def found(world: World) -> tuple[Verdict, str, str]:
    finding = slurm_finding(SlurmManager(run=world.run).look(SUBMITTED_S * 1000))
    return finding.verdict, finding.found, finding.advice or ""


def test_a_cluster_that_shows_all_is_summed_up() -> None:
    world = World(
        jobs=[Job(id=1), Job(id=2, state="PENDING", reason="Priority")],
        nodes=[Node(), Node(name="gpu2", used="")],
    )
    verdict, said, _ = found(world)
    assert verdict is Verdict.GOOD
    assert said == "cluster lab: 2 nodes, 2 of 8 GPUs given out, 1 job runs, 1 waits"


def test_nodes_that_gave_out_more_than_is_shown_are_named() -> None:
    verdict, said, advice = found(World(nodes=[Node(used="gpu:4")]))
    assert verdict is Verdict.LIMITED
    assert "on 1 node (gpu1) more is given out than its jobs show" in said
    assert "AdminLevel=Operator" in advice


def test_a_silent_slurm_is_no_empty_one() -> None:
    verdict, said, advice = found(World(failing={"squeue": "squeue gave no answer in 6 s; is slurmctld up?"}))
    assert (verdict, said) == (Verdict.LIMITED, "squeue gave no answer in 6 s; is slurmctld up?")
    assert "slurm = false" in advice


def test_nodes_that_nobody_measures_are_named() -> None:
    rows = [
        {"node": "n1", "gpus": 4, "measured_gpus": 4},
        {"node": "n2", "gpus": 4, "measured_gpus": 0},
        {"node": "n3", "gpus": 4, "measured_gpus": 3},
        {"node": "login", "gpus": 0, "measured_gpus": 0},
    ]
    finding = nodes_finding(rows)
    assert finding.verdict is Verdict.LIMITED
    assert finding.found == (
        "1 of 3 nodes with GPUs measured by nobody here: n2; 1 of 3 nodes with GPUs measured in part: n3"
    )
    good = nodes_finding(rows[:1])
    assert (good.verdict, good.found) == (Verdict.GOOD, "measured is 1 node of 1 with GPUs")


def test_on_whose_jobs_it_may_act_and_how_long_they_have_to_save_is_said() -> None:
    site = Controller(cluster="lab", began_ms=1, kill_wait_s=30, holds_saved=True)
    good = engine_finding(site, Reach.ALL)
    assert good.verdict is Verdict.GOOD
    assert good.found.startswith(
        "those of everybody who allows it: pause by requeuehold, 30 s to save itself; resume by release"
    )
    plain = engine_finding(Controller(cluster="lab", began_ms=1), Reach.OWN)
    assert plain.verdict is Verdict.LIMITED and "AdminLevel=Operator" in plain.advice
    assert plain.found.startswith("this account's own alone") and "RequeueExitHold=75" in plain.found
