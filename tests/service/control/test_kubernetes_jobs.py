"""Who allows what with a pod, and how one that Fallow suspended stands in what is decided upon."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Resume
from advisor.decide import decide
from advisor.jobs.external_jobs import Holder
from advisor.jobs.manager_acts import Asked, ManagedRun, ManagerActStore
from advisor.outcomes import Unsupported
from advisor.planner.consent import Kind, Origin, holding
from advisor.planner.limits import Limits, Mode
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Phase, Placement, ProjectName, Telemetry
from collector.clock import SystemClock
from collector.managers.kubernetes.api import NoAnswer
from collector.managers.kubernetes.reader import KubernetesManager
from collector.managers.model import Look
from collector.model import GpuUuid, JobId, NodeName
from collector.snapshot import Snapshot
from service.config.model import CollectConfig, Config
from service.control.kubernetes_jobs import KubernetesJobs, KubernetesJobsDependencies, kubernetes_jobs
from tests.collector.managers.kubernetes import cluster_answers as answers
from tests.collector.managers.kubernetes.api_server import JOB, JOB_UID, POD, ApiServer
from tests.stores import open_store

ID, UUID = JobId("pod:vision/train-x7k2p"), GpuUuid("g0")
RUN = ManagedRun(
    cluster="kubernetes", number=JOB_UID, user=None, name="train", submitted_ms=answers.BEGAN_MS, restarts=2
)
AUTO = Limits(modes={ActionClass.SCHEDULE: Mode.AUTO}, cooldown_s=0)


def nobody() -> Any:
    raise NoAnswer("a look asks nobody")


@dataclass
class Rig:
    book: ManagerActStore
    server: ApiServer = field(default_factory=ApiServer)
    looked: tuple[Look, ...] = ()
    takes_words: bool = True

    def look(self) -> None:
        def get(path: str) -> answers.Answer:
            status, body = self.server.get(path)
            return answers.Answer(status=status, body=body)

        look = KubernetesManager(nobody, get=get, jobs=True).look(SystemClock().now_ms())
        assert isinstance(look, Look), look
        self.looked = (look,)

    def state(self, **changes: Any) -> ClusterState:
        """As it was measured: the pod on its GPU."""
        job = Job(id=ID, project=ProjectName("vision"), phase=Phase.RUNNING)
        gpu = Gpu(uuid=UUID, node=NodeName("gpu-a"), telemetry=Telemetry.GOOD)
        plain = ClusterState(
            as_of_ms=SystemClock().now_ms(),
            gpus={UUID: gpu},
            jobs={ID: job},
            placements={ID: Placement(gpus=(UUID,))},
        )
        parts = KubernetesJobsDependencies(
            book=self.book,
            clock=SystemClock(),
            snapshot=lambda: Snapshot(looks=self.looked),
            connect=nobody,
            takes_words=self.takes_words,
        )
        return KubernetesJobs(parts).complete(replace(plain, **changes))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with open_store(tmp_path / "fallow.duckdb") as store:
        made = Rig(ManagerActStore(store, SystemClock()))
        made.look()
        yield made


def test_a_jobs_own_annotation_alone_allows_a_pause_and_no_restart(rig: Rig) -> None:
    job = rig.state().jobs[ID]
    assert (job.manager, job.preemptible, "pause" in job.cannot) == ("Kubernetes", True, False)
    held = {each.kind: each for each in holding(job, (), 0)}
    assert (held[Kind.PAUSE].allowed, held[Kind.PAUSE].origin) == (True, Origin.SUBMISSION)
    assert not held[Kind.RESTART].allowed
    rig.takes_words = False
    assert not rig.state().jobs[ID].preemptible, "a site that takes no yes from owners"
    rig.takes_words = True
    word = rig.server.objects[JOB]["metadata"]["annotations"].pop("fallow/allow")
    rig.server.objects[POD]["metadata"]["annotations"] = {"fallow/allow": word}
    rig.look()
    assert not rig.state().jobs[ID].preemptible, "the pod's own annotation is whoever made the pod's"


def test_an_old_answer_allows_nothing(rig: Rig) -> None:
    rig.looked = (replace(rig.looked[0], at_ms=rig.looked[0].at_ms - 301_000),)
    assert not rig.state().jobs[ID].preemptible


def suspended(rig: Rig) -> None:
    holder = Holder(project=ProjectName("vision"), name="train-x7k2p")
    asked = Asked(
        job=ID, verb="pause", run=RUN, target=JOB, holder=holder, gpus=(UUID,), began_ms=0, nonce="n"
    )
    rig.book.begin(asked, 1)
    assert (
        rig.state().jobs[ID].cannot["resume"] == "what was asked of Kubernetes about it has not been seen yet"
    )
    rig.server.touch(JOB, lambda of: of["spec"].update(suspend=True))
    rig.book.seen(1, RUN)
    rig.book.settle(1, "done")


def test_a_suspended_job_waits_while_pods_wait_for_gpus_and_is_nobodys_once_it_was_let_go(rig: Rig) -> None:
    suspended(rig)
    assert rig.state().jobs[ID].phase is Phase.PAUSED, "the look from before says nothing against it"
    rig.look()
    state = rig.state()
    job = state.jobs[ID]
    assert (job.phase, job.held, job.paused_on, job.manager) == (Phase.PAUSED, False, (UUID,), "Kubernetes")
    assert ID not in state.placements
    (step,) = decide(state, AUTO).steps
    assert isinstance(step, Resume) and step.places == ((None, 1),), "so many, and which it chooses itself"
    waiting = answers.pod("eval-0", 9, gpus=8, node=None)
    rig.server.objects["/api/v1/namespaces/vision/pods/eval-0"] = waiting
    rig.look()
    assert rig.state().jobs[ID].held and decide(rig.state(), AUTO).steps == ()
    rig.server.touch(JOB, lambda of: of["spec"].update(suspend=False))
    rig.look()
    assert ID not in rig.state(jobs={}, placements={}).jobs
    row = rig.book.act(1)
    assert row is not None and row.over_as == "released"


def test_where_the_site_does_not_let_it_act_pods_have_no_engine_of_kubernetes(tmp_path: Path) -> None:
    collect = CollectConfig(kubernetes="in-cluster")
    with open_store(tmp_path / "fallow.duckdb") as store:
        off = kubernetes_jobs(
            store, Config(collect=collect), SystemClock(), Snapshot, lambda job: False, simulated=False
        )
        assert not off.engine.has(ID)
        plain = ClusterState(as_of_ms=0, jobs={ID: Job(id=ID, project=ProjectName("p"))})
        assert off.complete(plain) == plain
        assert not isinstance(off.engine.give(Resume(job=ID, gpus=())), Unsupported | type(None))
