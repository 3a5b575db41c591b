"""Who allows what with a Slurm job, and how a job that Fallow holds stands in what is decided upon."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Pause, Requeue, Resume
from advisor.decide import decide
from advisor.jobs.external_jobs import Holder
from advisor.jobs.manager_acts import Asked, ManagedRun, ManagerActStore
from advisor.journal.journal import StoreJournal
from advisor.outcomes import Stale
from advisor.planner.consent import Kind, Origin, OwnerReply, holding, with_consent
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan, Rule
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Phase, Placement, ProjectName, Telemetry
from collector.clock import SystemClock
from collector.managers.model import Look, ManagedJob
from collector.managers.slurm.reader import SlurmManager
from collector.model import GpuUuid, JobId, NodeName
from collector.snapshot import Snapshot
from collector.store.database import Store
from service.config.model import ActingConfig, CollectConfig, Config, ConsentConfig
from service.control.errors import WrongState
from service.control.executor import Applying
from service.control.external_jobs import ExternalJobOrders
from service.control.free_gpus import FreeGpus
from service.control.interface import Caller, Role
from service.control.managed_jobs import ManagedJobs, ManagedJobsDependencies
from tests.collector.managers.slurm_world import Job as SlurmJob
from tests.collector.managers.slurm_world import Node, World
from tests.stores import open_store

ID, UUID = JobId("slurm:812"), GpuUuid("g0")
ANN = Caller(name="ann", uid=1, role=Role.USER)
CONFIG = Config(acting=ActingConfig(manager_rest_s=0))
RUN = ManagedRun(
    cluster="lab", number="812", user="ann", name="train", submitted_ms=1_795_660_771_000, restarts=0
)


class Rig:
    """A Slurm with one job, seen a moment ago; ``actor`` gave whatever order there is."""

    def __init__(self, store: Store, job: SlurmJob, config: Config = CONFIG) -> None:
        self.world, self.words, self.actor = World(jobs=[job]), list[OwnerReply](), "fallow"
        if not job.runs:
            self.world.nodes = [Node(used="")]
        self.book = ManagerActStore(store, SystemClock())
        self.looked: Look | None = None
        self.starts(config)
        self.look()

    def starts(self, config: Config) -> None:
        """A service that knows what the store and the newest look know."""
        self.managed = ManagedJobs(
            ManagedJobsDependencies(
                book=self.book,
                config=config,
                clock=SystemClock(),
                snapshot=lambda: Snapshot(looks=() if self.looked is None else (self.looked,)),
                words=lambda: self.words,
                actor_of=lambda intent: self.actor,
                account="root",
                run=self.world.run,
            )
        )

    def look(self) -> ManagedJob:
        look = SlurmManager(run=self.world.run).look(SystemClock().now_ms())
        assert isinstance(look, Look)
        self.looked = look
        self.managed.engine.look_again()
        return look.jobs[0]

    def state(self, **changes: Any) -> ClusterState:
        """As it was measured: the job on its GPU."""
        job = Job(id=ID, project=ProjectName("p"), user="ann", phase=Phase.RUNNING)
        gpu = Gpu(uuid=UUID, node=NodeName("gpu1"), telemetry=Telemetry.GOOD)
        plain = ClusterState(
            as_of_ms=SystemClock().now_ms(),
            gpus={UUID: gpu},
            jobs={ID: job},
            placements={ID: Placement(gpus=(UUID,))},
        )
        return self.managed.complete(replace(plain, **changes))

    def says(self, allowed: bool | None, job: JobId | None = None) -> None:
        self.words.append(OwnerReply(user="ann", job=job, kind=Kind.PAUSE, allowed=allowed, at_ms=1))


@pytest.mark.parametrize(
    ("job", "consent", "spoken", "allowed"),
    [
        (SlurmJob(id=812), ConsentConfig(), (None, "fallow"), False),
        (SlurmJob(id=812, comment="fallow:pause"), ConsentConfig(), (None, "fallow"), True),
        (SlurmJob(id=812, comment="fallow:pause"), ConsentConfig(), (False, "fallow"), False),
        (SlurmJob(id=812, comment="fallow:pause"), ConsentConfig(owners=False), (None, "fallow"), False),
        (SlurmJob(id=812), ConsentConfig(), (True, "fallow"), True),
        (SlurmJob(id=812), ConsentConfig(owners=False), (True, "fallow"), False),
        (SlurmJob(id=812, qos="scavenge"), ConsentConfig(qos=("scavenge",)), (None, "fallow"), True),
        (SlurmJob(id=812, qos="scavenge"), ConsentConfig(qos=("scavenge",)), (False, "fallow"), False),
        (SlurmJob(id=812), ConsentConfig(partitions=("main",)), (None, "fallow"), True),
        (SlurmJob(id=812), ConsentConfig(preemptible=("*",), checkpointable=("*",)), (None, "fallow"), False),
        (SlurmJob(id=812), ConsentConfig(), (None, "user ann"), True),
        (SlurmJob(id=812), ConsentConfig(), (None, "user root"), False),
        (SlurmJob(id=812, comment="fallow:pasue"), ConsentConfig(), (None, "user root"), False),
    ],
)
def test_a_pause_needs_the_word_of_the_owner_or_of_the_site(
    tmp_path: Path, job: SlurmJob, consent: ConsentConfig, spoken: tuple[bool | None, str], allowed: bool
) -> None:
    """``spoken``: what the owner said by `fallow consent`, and who gave the order."""
    said, actor = spoken
    with open_store(tmp_path / "fallow.duckdb") as store:
        rig = Rig(store, job, replace(CONFIG, consent=consent))
        rig.actor = actor
        if said is not None:
            rig.says(said)
        why = rig.managed.against(rig.look(), 1)
        assert (why is None) is allowed, why
        assert isinstance(rig.managed.engine.give(Pause(job=ID), 1), Stale) is not allowed
        told = [call for call in rig.world.calls if "requeuehold" in call]
        assert bool(told) is allowed
        if actor == "fallow" and consent.owners:
            state = with_consent(rig.state(), rig.words)
            assert (state.jobs[ID].preemptible and "pause" not in state.jobs[ID].withheld) is allowed


def test_a_comment_is_the_submissions_word_and_allows_no_restart(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        rig = Rig(store, SlurmJob(id=812, comment="fallow:pause"))
        held = {each.kind: each for each in holding(rig.state().jobs[ID], (), 0)}
        assert (held[Kind.PAUSE].allowed, held[Kind.PAUSE].origin) == (True, Origin.SUBMISSION)
        assert not held[Kind.RESTART].allowed


def test_what_slurm_decides_is_refused_with_its_name_whatever_is_allowed(tmp_path: Path) -> None:
    limits = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO), min_runtime_s=0)
    with open_store(tmp_path / "fallow.duckdb") as store:
        state = Rig(store, SlurmJob(id=812, comment="fallow:pause")).state()
        idle = replace(state.jobs[ID], started_ms=0, attached=False)
        state = replace(state, jobs={ID: idle})
        for action in ActionClass:
            plan = Plan(as_of_ms=state.as_of_ms, steps=(Pause(job=ID, action=action),))
            refused = approve(plan, state, limits).refused
            is_slurms = action in (
                ActionClass.SCHEDULE,
                ActionClass.FAIR_SHARE,
                ActionClass.PACK,
                ActionClass.CONSOLIDATE,
            )
            assert bool(refused) is is_slurms, (action, refused)
            assert not refused or (refused[0].rule, refused[0].reason[:5]) == (Rule.UNSUPPORTED, "Slurm")
        (no,) = approve(Plan(as_of_ms=0, steps=(Requeue(job=ID),)), state, limits).refused
        assert no.rule is Rule.UNSUPPORTED and no.would_change == "Slurm"


def test_a_held_job_waits_while_others_wait_for_gpus_and_is_no_ones_when_its_owner_let_it_go(
    tmp_path: Path,
) -> None:
    auto = Limits(modes={ActionClass.SCHEDULE: Mode.AUTO}, cooldown_s=0)
    after = replace(RUN, restarts=1, submitted_ms=RUN.submitted_ms + 5_000)
    waits = SlurmJob(id=812, state="PENDING", restarts=1, submitted_s=after.submitted_ms // 1000, held=True)
    with open_store(tmp_path / "fallow.duckdb") as store:
        rig = Rig(store, waits)
        holder = Holder(user="ann", name="train")
        asked = Asked(job=ID, verb="pause", run=RUN, target="812", holder=holder, gpus=(UUID,), began_ms=1)
        rig.book.begin(asked, 1)
        rig.book.seen(1, after)
        assert rig.state().jobs[ID].phase is Phase.RUNNING, "not seen twice yet"
        rig.book.settle(1, "done")
        rig.look()
        state = rig.state()
        job = state.jobs[ID]
        assert (job.phase, job.held, job.paused_on, ID in state.placements) == (
            Phase.PAUSED,
            False,
            (UUID,),
            False,
        )
        assert [type(step) for step in decide(state, auto).steps] == [Resume]
        rig.world.jobs = [waits, SlurmJob(id=9, state="PENDING", reason="Resources")]
        rig.look()
        assert rig.state().jobs[ID].held and decide(rig.state(), auto).steps == ()
        rig.world.jobs = [replace(waits, held=False)]
        rig.look()
        assert ID not in rig.state(jobs={}, placements={}).jobs
        done = rig.book.act(1)
        assert done is not None and done.over_as == "released"


def test_where_slurm_is_not_asked_nothing_is_done(tmp_path: Path) -> None:
    off = replace(CONFIG, collect=CollectConfig(slurm=False))
    with open_store(tmp_path / "fallow.duckdb") as store:
        rig = Rig(store, SlurmJob(id=812, comment="fallow:pause"), off)
        assert "collect.slurm" in rig.state().jobs[ID].cannot["pause"]
        rig.managed.engine.give(Pause(job=ID), 1)
        assert not any("requeuehold" in call for call in rig.world.calls)


def test_a_release_right_after_slurms_return_is_asked_of_slurm_itself(tmp_path: Path) -> None:
    after = replace(RUN, restarts=1, submitted_ms=RUN.submitted_ms + 5_000)
    waits = SlurmJob(id=812, state="PENDING", restarts=1, submitted_s=after.submitted_ms // 1000, held=True)
    with open_store(tmp_path / "fallow.duckdb") as store:
        rig = Rig(store, waits)
        holder = Holder(user="ann", name="train")
        asked = Asked(job=ID, verb="pause", run=RUN, target="812", holder=holder, gpus=(UUID,), began_ms=1)
        rig.book.begin(asked, 1)
        rig.book.seen(1, after)
        rig.book.settle(1, "done")
        rig.starts(CONFIG)
        engine = rig.managed.engine
        rig.world.failing["scontrol"] = "slurm_load_ctl_conf error: Unable to contact slurm controller"
        engine.look_again()
        assert "does not answer" in rig.state().jobs[ID].cannot["resume"]
        journal = StoreJournal(store, SystemClock())
        applying = Applying(engine, journal, SystemClock())
        orders = ExternalJobOrders(rig.state, applying, FreeGpus(rig.state, Limits(), lambda: None))
        applying.start()
        try:
            with pytest.raises(WrongState, match="did not answer, and nothing was done"):
                orders.resume(ANN, ID, "while it is away")
            del rig.world.failing["scontrol"]  # it is back, and nobody has looked again yet
            assert "does not answer" in rig.state().jobs[ID].cannot["resume"]
            orders.resume(ANN, ID, "at once")
            assert ("scontrol", "release", "812") in rig.world.calls
        finally:
            engine.interrupt()
            applying.stop()
