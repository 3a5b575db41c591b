"""What orders may not take: what was promised to others, more than a limit, anything while halted."""

from pathlib import Path

import pytest

from advisor.actions import Action, Move, Pause, Resize, Start
from collector.model import JobId
from service.config.model import Config, QuotaConfig
from service.control.errors import WrongState
from service.control.free_gpus import taken
from tests.advisor.journal.journal_parts import calm, cluster
from tests.service.control.control_world import ANNA, CONFIG, ROOT, Stage, StandIn, stage, until, wanted


def submit(there: Stage, name: str, **asked: object) -> JobId:
    return JobId(there.desk.submit(ANNA, wanted(name=name, nonce=name, **asked))[0]["job"])


def running(there: Stage, name: str, **asked: object) -> JobId:
    job = submit(there, name, **asked)
    StandIn(there.desk, ANNA, job)
    until(f"{name} runs", lambda: there.state(job) == "running")
    return job


def test_an_order_does_not_take_what_the_head_of_the_queue_was_promised(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        running(there, "long", min_gpus=2, max_gpus=2, limit_s=3600.0)
        grows = running(there, "grows", min_gpus=1, max_gpus=2, limit_s=72_000.0)
        there.desk.resize(ANNA, grows, 1, "")
        head = submit(there, "head", min_gpus=3, max_gpus=3)
        StandIn(there.desk, ANNA, head)
        before_ms = until("it is promised a start", lambda: there.desk.job(ROOT, head)["promised_ms"])
        for caller in (ANNA, ROOT):
            with pytest.raises(WrongState, match=r"not free now \(. free GPUs are promised to who waits\)"):
                there.desk.resize(caller, grows, 2, "")
        assert there.desk.job(ROOT, head)["promised_ms"] == before_ms


def test_a_limit_of_a_project_holds_for_what_is_ordered(tmp_path: Path) -> None:
    config = Config(acting=CONFIG.acting, quotas={"vision": QuotaConfig(gpus=1.0, limit=2.0, members=("*",))})
    with stage(tmp_path, config) as there:
        running(there, "one")
        job = running(there, "two", max_gpus=3, min_gpus=1)
        with pytest.raises(WrongState, match="over the limit of vision, 2 GPUs; its jobs hold 2"):
            there.desk.resize(ANNA, job, 2, "")


def test_while_acting_is_stopped_jobs_give_back_and_take_nothing(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = running(there, "job", min_gpus=1, max_gpus=4)
        there.desk.resize(ANNA, job, 2, "")
        there.desk.stop_acting(ROOT, "rack 4 is on fire")
        with pytest.raises(WrongState, match=r"gets no GPUs: .*rack 4 is on fire"):
            there.desk.resize(ANNA, job, 3, "")
        shrunk = there.desk.resize(ANNA, job, 1, "")
        assert shrunk["outcome"] == "done"
        with pytest.raises(WrongState, match=r"is not undone: .*rack 4 is on fire"):
            there.desk.undo(ANNA, shrunk["action"])
        assert len(there.leases()) == 1
        there.desk.start_acting(ROOT)
        until("it may take again", lambda: there.desk.undo(ANNA, shrunk["action"])["outcome"] == "done")
        assert len(there.leases()) == 2


@pytest.mark.parametrize(
    ("step", "more"),
    [
        (Resize(job="a", gpus=("n/0",)), ()),
        (Resize(job="a", gpus=("n/0", "n/1", "n/2")), ("n/2",)),
        (Move(job="a", gpus=("n/1", "n/3")), ("n/3",)),
        (Start(job="w", gpus=("n/3",)), ("n/3",)),
        (Pause(job="a"), ()),
    ],
)
def test_what_a_step_takes_is_what_its_job_has_not(step: Action, more: tuple[str, ...]) -> None:
    state = cluster(calm("a", max_gpus=3), on={"a": ("n/0", "n/1")})
    assert taken(step, state) == more
