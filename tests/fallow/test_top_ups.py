"""When a top-up may be asked for, and that each one that was asked for is found again, or cancelled."""

import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime

import pytest

from fallow.top_ups import slurm_text
from fallow.top_ups.growth import Look, refusal, rest_s
from fallow.top_ups.slurm import NoAnswer
from fallow.top_ups.slurm_text import NotRead, Own, Site, Start, Waiting
from fallow.top_ups.top_ups import TopUps

pytestmark = pytest.mark.quick
NOW = datetime.fromisoformat("2026-11-26T14:09:30")
CONFIG = """\
Configuration data as of 2026-11-26T14:09:40
BOOT_TIME               = 2026-11-26T14:09:00
KillWait                = 5 sec
NEXT_JOB_ID             = 812
PreemptMode             = CANCEL
PreemptType             = preempt/qos
PrivateData             = none
"""
"""Lines of what scontrol 22.05.8 printed."""
SITE = Site(hides_jobs=False, preempts=True, kill_wait_s=5.0, boot="2026-11-26T14:09:00", next_job=812)
TRIED = "sbatch: Job 3 to start at 2026-11-26T14:09:31 using 1 processors on nodes n1 in partition low\n"
"""What sbatch 22.05.8 printed."""


def look(site: Site = SITE, tried: str = TRIED, waiting: Collection[Waiting] = ()) -> Look:
    return Look(
        site=site,
        start=slurm_text.start_of(tried),
        tried=tried,
        neighbours=slurm_text.neighbours_of("n1|low\nn1|main\nn2|main\nn3|far\n", "low"),
        waiting=tuple(waiting),
    )


def waiting(reason: str = "Resources", partitions: str = "main", gpus: bool = True) -> Waiting:
    return Waiting(job="7", partitions=frozenset(partitions.split(",")), reason=reason, wants_gpus=gpus)


def test_what_slurm_prints_is_read_as_it_is_meant() -> None:
    assert slurm_text.site_of(CONFIG) == SITE
    hidden = CONFIG.replace("none", "accounts,jobs").replace("preempt/qos", "preempt/none")
    assert slurm_text.site_of(hidden).hides_jobs and not slurm_text.site_of(hidden).preempts
    with pytest.raises(NotRead):
        slurm_text.site_of("slurm_load_ctl_conf error: Unable to contact slurm controller")
    assert slurm_text.start_of(TRIED) == Start(at="2026-11-26T14:09:31", partition="low")
    assert slurm_text.start_of("allocation failure: Requested node configuration is not available") is None
    row = ("4", "main,low", "Resources", "gres:gpu:2", "", "", "cpu=1,node=1")
    text = "".join(f"{value}@" for value in row) + "\n" + "".join(f"{value}@" for value in row)
    assert [each.wants_gpus for each in slurm_text.waiting_of(text, "@")] == [True, True]
    with pytest.raises(NotRead):
        slurm_text.waiting_of("4@main@", "@")


def test_a_top_up_is_asked_for_only_where_nobody_else_could_use_the_gpus() -> None:
    assert refusal(look(), (), NOW) is None
    mine_or_elsewhere = [
        waiting("JobHeldUser"),
        waiting("QOSMaxGRESPerUser"),
        waiting(partitions="far"),
        waiting(gpus=False),
    ]
    assert refusal(look(waiting=mine_or_elsewhere), (), NOW) is None
    refused = {
        "PrivateData": look(site=Site(**{**fields(SITE), "hides_jobs": True})),
        "preempt/none": look(site=Site(**{**fields(SITE), "preempts": False})),
        "could use these GPUs (7)": look(waiting=[waiting()]),
        "nothing is free": look(tried=TRIED.replace("T14:09:31", "T15:09:31")),
        "would not take": look(tried="allocation failure: Requested node configuration is not available"),
    }
    for reason in ("Priority", "None"):  # None: the scheduler has not looked at it yet
        refused[f"they go first{' ' * len(reason)}".strip()] = look(waiting=[waiting(reason)])
    for said, seen in refused.items():
        assert said in (refusal(seen, (), NOW) or "allowed"), said
    assert refusal(look(waiting=[waiting()]), {"7"}, NOW) is None, "it is our own"


def test_after_a_restart_of_slurmctld_nothing_is_asked_for_a_minute() -> None:
    assert rest_s(SITE, None, NOW) == 0 and rest_s(SITE, SITE, NOW) == 0
    anew = Site(**{**fields(SITE), "boot": "2026-11-26T14:09:20"})
    assert rest_s(anew, SITE, NOW) == 50
    assert rest_s(Site(**{**fields(SITE), "next_job": 800}), SITE, NOW) == 30, "it forgot jobs"


def fields(site: Site) -> dict[str, object]:
    return {name: getattr(site, name) for name in Site.__slots__}


class Queue:
    """A Slurm in memory: jobs by nonce. ``breaks`` is what the next submission raises, ``loses`` its job."""

    def __init__(self) -> None:
        self.jobs: dict[str, Own] = {}
        self.submitted: list[str] = []
        self.others: list[Waiting] = []
        self.breaks: NoAnswer | None = None
        self.loses = False
        self.starts = True

    def site(self) -> Site:
        return SITE

    def look(self, site: Site) -> Look:
        now = datetime.now().strftime("%Y-%m-%dT%H:%M:%S")  # noqa: DTZ005  (as Slurm prints it)
        return look(tried=TRIED.replace("2026-11-26T14:09:31", now), waiting=self.others)

    def submit(self, nonce: str, site: Site) -> None:
        self.submitted.append(nonce)
        number = str(len(self.submitted))
        if not self.loses:
            state = "RUNNING" if self.starts else "PENDING"
            self.jobs[nonce] = Own(job=number, state=state, reason="None", comment="")
        if self.breaks is not None:
            raise self.breaks

    def found(self, nonces: Collection[str]) -> Mapping[str, Own]:
        return {nonce: job for nonce, job in self.jobs.items() if nonce in nonces}

    def cancel(self, nonce: str) -> None:
        self.end(nonce, "CANCELLED")

    def end(self, nonce: str, state: str) -> None:
        if nonce in self.jobs:
            job = self.jobs[nonce]
            self.jobs[nonce] = Own(job=job.job, state=state, reason="None", comment="")

    def running(self) -> list[str]:
        return [job.job for job in self.jobs.values() if not job.ended]


def until(happens: Callable[[], object]) -> object:
    end_s = time.monotonic() + 20
    while not (told := happens()):
        assert time.monotonic() < end_s
        time.sleep(0.005)
    return told


def grown(queue: Queue, top_ups: TopUps, count: int) -> object:
    """Ask for so many; what becomes of it while every job that runs joins at once."""
    top_ups.ask(count)

    def outcome() -> object:
        top_ups.follow({job: f"m{job}" for job in queue.running()})
        return top_ups.outcome()

    return until(outcome)


def test_top_ups_come_one_by_one_up_to_the_most_and_go_youngest_first() -> None:
    queue = Queue()
    top_ups = TopUps(queue, 3, sure_s=0.01)
    assert grown(queue, top_ups, 9) == {"top_ups": 3}
    assert queue.running() == ["1", "2", "3"]
    top_ups.ask(1)
    ours, going = top_ups.follow({job: f"m{job}" for job in queue.running()})
    assert (ours, going) == ({"m1", "m2", "m3"}, {"m2", "m3"})
    assert top_ups.outcome() is None and queue.running() == ["1", "2", "3"], "their workers hand over first"
    until(lambda: (top_ups.follow({"1": "m1"}), top_ups.outcome())[1])
    assert queue.running() == ["1"]
    top_ups.close()
    assert queue.running() == [], "none outlives the training"


def test_one_that_slurm_takes_back_is_not_asked_for_again() -> None:
    queue = Queue()
    top_ups = TopUps(queue, 2, sure_s=0.01)
    assert grown(queue, top_ups, 2) == {"top_ups": 2}
    queue.end(queue.submitted[1], "PREEMPTED")
    until(lambda: (top_ups.follow({"1": "m1"}), len(top_ups.status()["jobs"]) == 1)[1])
    assert top_ups.status()["wanted"] == 1 and len(queue.submitted) == 2
    queue.others.append(waiting())
    told = grown(queue, top_ups, 2)
    assert isinstance(told, dict) and "they go first" in told["error"] and told["top_ups"] == 1
    top_ups.close()


@pytest.mark.parametrize("loses", [True, False])
def test_a_submission_without_an_answer_is_looked_for_and_cancelled(loses: bool) -> None:
    queue = Queue()
    queue.breaks, queue.loses = NoAnswer("sbatch gave no answer"), loses
    top_ups = TopUps(queue, 1, sure_s=0.01)
    told = grown(queue, top_ups, 1)
    assert isinstance(told, dict) and "no answer" in told["error"] and told["top_ups"] == 0
    assert queue.running() == [] and len(queue.submitted) == 1
    top_ups.close()


def test_a_job_that_slurm_forgot_gives_its_machine_back() -> None:
    queue = Queue()
    top_ups = TopUps(queue, 1, sure_s=0.01)
    assert grown(queue, top_ups, 1) == {"top_ups": 1}
    queue.jobs.clear()  # slurmctld was killed before it had written the job down; its processes run on
    top_ups.ask(1)
    until(lambda: top_ups.follow({"1": "m1"})[1] == {"m1"})
    top_ups.close()
