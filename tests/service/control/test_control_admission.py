"""What becomes a job: not more than one person may have, and nothing that could never run."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.state.model import ClusterState, Gpu, Topology
from collector.model import JobId
from service.config.model import LimitsConfig
from service.control.admission import never_fits
from service.control.errors import BadOrder, OverLimit
from service.control.interface import Caller, Role
from tests.service.control.control_world import ANNA, BO, CONFIG, ROOT, StandIn, stage, until, wanted

FEW = replace(CONFIG, limits=LimitsConfig(jobs=2, submitted_mib=1, never_fitting="wait"))
REFUSING = replace(CONFIG, limits=LimitsConfig())
WAITS = {"min_gpus": 9, "max_gpus": 9}


def test_one_person_has_so_many_jobs_that_have_not_ended(tmp_path: Path) -> None:
    with stage(tmp_path, FEW, begin=False) as there:
        jobs = [there.desk.submit(ANNA, wanted(nonce=f"n{n}"))[0]["job"] for n in range(2)]
        with pytest.raises(OverLimit, match=r"anna has 2 jobs .*\(limits\.jobs\)") as refused:
            there.desk.submit(ANNA, wanted(nonce="n2"))
        assert refused.value.retry_after_s == 60
        assert there.desk.submit(ANNA, wanted(nonce="n1"))[1] is False, "what is there already is answered"
        alias = Caller(name="anna-too", uid=ANNA.uid, role=Role.USER)
        with pytest.raises(OverLimit):
            there.desk.submit(alias, wanted(nonce="n3"))
        assert there.desk.submit(BO, wanted(nonce="n0"))[1]
        there.desk.cancel(ANNA, JobId(jobs[0]), "")
        assert there.desk.submit(ANNA, wanted(nonce="n4"))[1]
        for n in range(5):
            assert there.desk.submit(ROOT, wanted(nonce=f"r{n}"))[1], "operators are not bounded"


def test_the_bound_holds_across_a_restart(tmp_path: Path) -> None:
    with stage(tmp_path, FEW, begin=False) as there:
        for n in range(2):
            there.desk.submit(ANNA, wanted(nonce=f"n{n}"))
    with stage(tmp_path, FEW, begin=False) as there, pytest.raises(OverLimit):
        there.desk.submit(ANNA, wanted(nonce="n2"))


def test_long_commands_have_a_bound_of_their_own(tmp_path: Path) -> None:
    many = replace(FEW, limits=replace(FEW.limits, jobs=1000))
    with stage(tmp_path, many, begin=False) as there:
        for n in range(2):
            there.desk.submit(ANNA, wanted(nonce=f"n{n}", command=("x" * 600_000,)))
        with pytest.raises(OverLimit, match=r"1 MiB, .*limits\.submitted_mib.*scripts"):
            there.desk.submit(ANNA, wanted(nonce="n2"))
        assert there.desk.submit(BO, wanted(nonce="n0"))[1]


def test_who_holds_gpus_is_known_while_they_do(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = str(there.desk.submit(ANNA, wanted(nonce="n"))[0]["job"])
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        holdings = there.desk.holdings
        assert (holdings.has_gpus(f"uid {ANNA.uid}"), holdings.jobs_of(f"uid {ANNA.uid}")) == (True, 1)
        launcher.finish()
        until("it has ended", lambda: there.state(job) == "ended")
        assert (holdings.has_gpus(f"uid {ANNA.uid}"), holdings.jobs_of(f"uid {ANNA.uid}")) == (False, 0)


def test_what_could_never_run_is_refused_where_the_cluster_is_known(tmp_path: Path) -> None:
    with stage(tmp_path, REFUSING, begin=False) as there:
        assert there.desk.submit(ANNA, wanted(nonce="early", **WAITS))[1], "nobody has looked yet"
        there.acting.loop.cycle()
        with pytest.raises(
            BadOrder, match=r"9 GPUs of one kind at once .* \(4 H100\); limits\.never_fitting"
        ):
            there.desk.submit(ANNA, wanted(nonce="n", **WAITS))
        with pytest.raises(BadOrder, match="1 A100 GPU of one kind"):
            there.desk.submit(ROOT, wanted(nonce="n", gpu_models=("A100",)))
        with pytest.raises(BadOrder, match="with 200 GiB"):
            there.desk.submit(ANNA, wanted(nonce="n", memory_bytes=200 << 30))
        with pytest.raises(BadOrder, match="5 GPUs of one kind at once are more than there ever are"):
            there.desk.submit(ANNA, wanted(nonce="n", min_gpus=5, max_gpus=5, topology=Topology.NODE))
        assert there.desk.submit(ANNA, wanted(nonce="n", min_gpus=4, max_gpus=64))[1], "from what there is"


def test_more_gpus_than_one_machine_has_are_refused_to_who_needs_one() -> None:
    gpus = {f"{node}/{at}": Gpu(uuid=f"{node}/{at}", node=node) for node in ("a", "b") for at in range(2)}
    state = ClusterState(as_of_ms=0, gpus=gpus)
    asked = wanted(min_gpus=3, max_gpus=3)
    assert never_fits(asked, state) is None
    why = never_fits(replace(asked, topology=Topology.NODE), state)
    assert why is not None and "on one node are more than any node here has, which is 2" in why
    assert never_fits(replace(asked, min_gpus=2, topology=Topology.NODE), state) is None
