"""The engine for Kubernetes' Jobs, over HTTP, on an API server that refuses, is cut off, slow, or changed.

No real cluster has been seen: the stand-in answers as the API reference says, and its Job is one by
Kubernetes' own schema (tests/packaging/test_kubernetes_files.py).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Action, Cancel, Move, Pause, Requeue, Resume
from advisor.engines.kubernetes import CANNOT, UNFIT_MS, KubernetesEngine, KubernetesEngineDependencies
from advisor.engines.kubernetes_outcomes import UNHEARD_MS
from advisor.jobs.manager_acts import ManagerActStore
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported
from collector.clock import SystemClock
from collector.managers.kubernetes.api import Account, connected
from collector.managers.kubernetes.reader import KubernetesManager
from collector.managers.model import Look, WaitCause
from collector.managers.owner_word import OwnerWord
from collector.model import GpuUuid, JobId
from collector.store.database import Store
from tests.collector.managers.kubernetes import cluster_answers as answers
from tests.collector.managers.kubernetes.api_server import (
    JOB,
    JOB_UID,
    POD,
    WORKLOAD,
    WORKLOAD_UID,
    ApiServer,
    job,
    pod,
    serving,
)
from tests.stores import open_store

ID = JobId("pod:vision/train-x7k2p")
RESUME = Resume(job=ID, gpus=(), places=((None, 1),))
NOW_MS = answers.BEGAN_MS + 3_600_000
ASK_S = 0.4
"""A loopback answers within milliseconds."""


@dataclass
class Clock(SystemClock):
    at_ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms


def against(word: OwnerWord | None, annotate: str) -> str | None:
    if word is not None and word.problem:
        return word.problem
    return None if word is not None and word.pause else "nobody allowed it"


@dataclass
class Rig:
    store: Store
    server: ApiServer
    account: Account
    clock: Clock = field(default_factory=Clock)
    intent: int = 0
    engine: KubernetesEngine = field(init=False)
    looked: Look | None = None

    def __post_init__(self) -> None:
        self.starts()
        self.looks()

    def starts(self) -> None:
        """A service that knows what the store knows, and nothing else."""
        self.engine = KubernetesEngine(
            KubernetesEngineDependencies(
                book=ManagerActStore(self.store, self.clock),
                connect=lambda: contextmanager(partial(connected, timeout_s=ASK_S))(self.account),
                clock=self.clock,
                looks=lambda: () if self.looked is None else (self.looked,),
                against=against,
                gpus_of=lambda job: (GpuUuid("g0"),),
            )
        )

    def looks(self) -> Look:
        look = KubernetesManager(lambda: self.account, jobs=True).look(self.clock.at_ms)
        assert isinstance(look, Look), look
        self.looked = look
        self.server.asked.clear()
        return look

    def give(self, step: Action) -> Outcome | None:
        """The outcome where there is one at once."""
        self.intent += 1
        given = self.engine.give(step, self.intent)
        return given if isinstance(given, Stale | Unsupported | Failed | Done | Late) else None

    def found(self, after_ms: int = 0) -> Outcome | None:
        self.clock.at_ms += after_ms
        return self.engine.found(self.intent)

    def paused(self) -> None:
        assert self.give(Pause(job=ID)) is None
        assert isinstance(self.found(), Done)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    yield from _rig(tmp_path, ApiServer())


@pytest.fixture
def queued(tmp_path: Path) -> Iterator[Rig]:
    """The same with Kueue, which has admitted the Job."""
    yield from _rig(tmp_path, ApiServer().with_kueue())


def _rig(folder: Path, server: ApiServer) -> Iterator[Rig]:
    (folder / "token").write_text("word")
    with open_store(folder / "fallow.duckdb") as store, serving(server) as url:
        yield Rig(store, server, Account(url=url, token_file=folder / "token", ca_file=None))


def test_a_job_is_suspended_seen_to_end_and_let_go_on(rig: Rig) -> None:
    rig.server.is_slow_to_end = True
    assert rig.give(Pause(job=ID)) is None
    assert rig.server.changes == [JOB]
    (asked,) = rig.server.bodies
    nonce = asked["metadata"]["annotations"]["fallow/intent"]
    assert len(nonce) == 16 and asked == {
        "metadata": {"uid": JOB_UID, "resourceVersion": "100", "annotations": {"fallow/intent": nonce}},
        "spec": {"suspend": True},
    }
    ending = rig.found()
    assert isinstance(ending, Late) and "its pod is ending" in ending.found
    rig.server.ends()
    done = rig.found(3_000)
    assert isinstance(done, Done) and done.took_s == 3.0 and "its pod is gone" in done.note
    (waiting,) = rig.looks().jobs
    assert (waiting.shown_id, waiting.cause, waiting.ask.gpus) == ("vision/train", WaitCause.HELD, 1)
    assert rig.give(RESUME) is None
    assert rig.server.bodies[1]["spec"] == {"suspend": False}
    assert rig.server.bodies[1]["metadata"]["annotations"]["fallow/intent"] != nonce
    again = rig.found()
    assert isinstance(again, Done) and "let go" in again.note
    assert isinstance(rig.give(RESUME), Stale), "nothing is held any more"
    assert rig.server.objects[JOB]["metadata"]["annotations"]["team"] == "a", "what others wrote stays"
    assert {verb for verb, _ in rig.server.asked} <= {"GET", "PATCH"} and len(rig.server.bodies) == 2


def test_a_job_that_kueue_has_is_paused_by_its_workload_and_the_job_is_left_alone(queued: Rig) -> None:
    queued.server.is_slow_to_end = True
    assert queued.give(Pause(job=ID)) is None
    assert queued.server.changes == [WORKLOAD]
    assert queued.server.bodies[0]["spec"] == {"active": False}
    assert queued.server.bodies[0]["metadata"]["uid"] == WORKLOAD_UID
    assert isinstance(queued.found(), Late)
    queued.server.ends()
    still = queued.found()
    assert isinstance(still, Late), "Kueue holds its quota still"
    queued.server.objects[WORKLOAD]["status"]["conditions"][0]["status"] = "False"
    assert isinstance(queued.found(), Done)
    (waiting,) = queued.looks().jobs
    assert (waiting.shown_id, waiting.cause) == ("vision/train", WaitCause.HELD), "once, not twice"
    assert queued.give(RESUME) is None
    assert queued.server.bodies[1]["spec"] == {"active": True}
    assert isinstance(queued.found(), Done)


def _label(of: dict[str, Any]) -> None:
    of["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}


def _controlled(of: dict[str, Any]) -> None:
    of["metadata"]["ownerReferences"] = [answers.owner("JobSet", "all", 70)]


def _finished(of: dict[str, Any]) -> None:
    of["status"]["conditions"] = [{"type": "Complete", "status": "True"}]


@pytest.mark.parametrize(
    ("at", "change", "kind", "says"),
    [
        (JOB, lambda of: of["metadata"].pop("annotations"), Stale, "nobody allowed it"),
        (JOB, lambda of: of["metadata"]["annotations"].update({"fallow/allow": "pasue"}), Stale, "pasue"),
        (
            JOB,
            lambda of: of["metadata"]["annotations"].update({"fallow/allow": "pause no"}),
            Stale,
            "none of",
        ),
        (JOB, lambda of: of["metadata"].update(uid=answers.uid(99)), Unsupported, "does not exist"),
        (JOB, _controlled, Unsupported, "JobSet all"),
        (JOB, lambda of: of["spec"].update(parallelism=2), Unsupported, "end them all"),
        (JOB, lambda of: of["status"].update(active=2), Unsupported, "end them all"),
        (JOB, lambda of: of["spec"].update(managedBy="kueue.x-k8s.io/multikueue"), Unsupported, "multikueue"),
        (JOB, _label, Unsupported, "Kueue"),
        (JOB, _finished, Stale, "has ended"),
        (JOB, lambda of: of["spec"].update(suspend=True), Stale, "suspended already"),
        (JOB, lambda of: of["metadata"].update(deletionTimestamp=answers.BEGAN), Stale, "being deleted"),
        (POD, lambda of: of["metadata"].update(uid=answers.uid(98)), Stale, "does not show"),
        (POD, lambda of: of["metadata"].update(deletionTimestamp=answers.BEGAN), Stale, "ending already"),
        (POD, lambda of: of["metadata"].update(labels={"app": "liar"}), Unsupported, "does not count it"),
        (POD, lambda of: of["metadata"].pop("ownerReferences"), Unsupported, "no pod of a Job"),
        (
            POD,
            lambda of: of["metadata"].update(ownerReferences=[answers.owner("ReplicaSet", "web", 60)]),
            Unsupported,
            "ReplicaSet",
        ),
    ],
)
def test_nothing_is_changed_where_the_job_as_it_is_now_allows_or_bears_no_pause(
    rig: Rig, at: str, change: Callable[[dict[str, Any]], object], kind: type[Outcome], says: str
) -> None:
    change(rig.server.objects[at])
    outcome = rig.give(Pause(job=ID))
    assert isinstance(outcome, kind) and says in str(outcome), outcome
    assert rig.server.changes == []
    assert ("pause" in rig.engine.can(ID)) is (kind is Unsupported), "what can't be is remembered"
    rig.clock.at_ms += UNFIT_MS
    assert "pause" not in rig.engine.can(ID)


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (401, Unsupported, "HTTP 401"),
        (403, Unsupported, "this account may not change it (HTTP 403: jobs.batch is refused"),
        (404, Stale, "it is gone"),
        (409, Stale, "nothing was done"),
        (410, Stale, "it is gone"),
        (422, Failed, "refused it, and nothing was done (HTTP 422"),
    ],
)
def test_a_clear_no_is_no_and_is_not_looked_for(
    rig: Rig, status: int, kind: type[Outcome], says: str
) -> None:
    rig.server.refuses = status
    outcome = rig.give(Pause(job=ID))
    assert isinstance(outcome, kind) and says in str(outcome), outcome
    assert isinstance(rig.found(), Failed)
    rig.server.refuses = None
    assert rig.give(Pause(job=ID)) is None, "the next try is not in its way"


def test_who_was_quicker_wins_and_nothing_is_done(rig: Rig) -> None:
    rig.server.meanwhile = lambda: rig.server.touch(
        JOB, lambda of: of["metadata"]["annotations"].pop("fallow/allow"), spec=False
    )
    outcome = rig.give(Pause(job=ID))
    assert isinstance(outcome, Stale) and "HTTP 409" in outcome.found
    assert rig.server.objects[JOB]["spec"]["suspend"] is False


@pytest.mark.parametrize(("fault", "value"), [("refuses", 500), ("refuses", 429), ("refuses", 504)])
def test_an_unclear_no_is_waited_for_as_long_as_it_may_still_come(rig: Rig, fault: str, value: int) -> None:
    setattr(rig.server, fault, value)
    assert rig.give(Pause(job=ID)) is None
    assert isinstance(rig.found(UNHEARD_MS), Late)
    over = rig.found(1)
    assert isinstance(over, Failed) and "never showed it" in over.found


@pytest.mark.parametrize(
    ("fault", "value", "is_done"), [("cuts", "after", True), ("drips", True, True), ("cuts", "before", False)]
)
def test_what_was_cut_off_is_seen_and_not_asked_for_again(
    rig: Rig, fault: str, value: Any, is_done: bool
) -> None:
    setattr(rig.server, fault, value)
    assert rig.give(Pause(job=ID)) is None
    setattr(rig.server, fault, None if fault == "cuts" else False)
    assert isinstance(rig.found(), Done if is_done else Late)
    twice = rig.give(Pause(job=ID))
    assert isinstance(twice, Stale) and rig.server.changes == [JOB]


def test_a_server_that_does_not_answer_or_is_away_leaves_it_unknown(rig: Rig) -> None:
    rig.server.hangs = True
    assert rig.give(Pause(job=ID)) is None
    assert isinstance(rig.found(), Late)
    rig.account = Account(url="http://127.0.0.1:9", token_file=rig.account.token_file, ca_file=None)
    away = rig.found(2 * UNHEARD_MS)
    assert isinstance(away, Late) and "does not answer" in away.found, "nobody looked: it is not known"


def test_where_nobody_can_be_asked_nothing_is_done(rig: Rig) -> None:
    rig.account = Account(url="http://127.0.0.1:9", token_file=rig.account.token_file, ca_file=None)
    nothing = rig.give(Pause(job=ID))
    assert isinstance(nothing, Stale) and "nothing was done" in nothing.found
    assert rig.found() is None, "nothing was written down"


def test_after_a_crash_what_was_asked_is_found_and_what_was_not_is_not_done(rig: Rig) -> None:
    assert rig.give(Pause(job=ID)) is None
    rig.starts()
    assert isinstance(rig.found(), Done)
    rig.server.cuts = "before"  # the service dies between its note and the request
    assert rig.give(RESUME) is None
    rig.server.cuts = None
    rig.starts()
    assert isinstance(rig.found(), Late)
    assert isinstance(rig.found(UNHEARD_MS + 1), Failed)
    assert rig.server.objects[JOB]["spec"]["suspend"] is True
    assert rig.give(RESUME) is None and isinstance(rig.found(), Done), "it can still be let go on"


def test_what_somebody_suspended_again_is_theirs(rig: Rig) -> None:
    rig.paused()
    for suspended in (False, True):
        rig.server.touch(JOB, lambda of, to=suspended: of["spec"].update(suspend=to))  # type: ignore[misc]
    outcome = rig.give(RESUME)
    assert isinstance(outcome, Stale) and "theirs" in outcome.found
    assert rig.server.changes == [JOB]


def test_what_somebody_let_go_at_once_or_deleted_is_said(rig: Rig) -> None:
    rig.server.is_slow_to_end = True
    assert rig.give(Pause(job=ID)) is None
    rig.server.touch(JOB, lambda of: of["spec"].update(suspend=False))
    back = rig.found()
    assert isinstance(back, Failed) and "let it go on" in back.found
    assert rig.give(Pause(job=ID)) is None
    del rig.server.objects[JOB]
    gone = rig.found()
    assert isinstance(gone, Failed) and "deleted" in gone.found


def test_a_pod_of_the_same_name_that_came_since_is_not_the_one_that_was_paused(rig: Rig) -> None:
    assert rig.give(Pause(job=ID)) is None
    rig.server.objects[POD] = pod()
    rig.server.objects[POD]["metadata"]["uid"] = answers.uid(77)
    assert isinstance(rig.found(), Done)


def test_a_job_made_anew_under_its_name_is_another(rig: Rig) -> None:
    rig.server.is_slow_to_end = True
    assert rig.give(Pause(job=ID)) is None
    rig.server.objects[JOB] = job()
    rig.server.objects[JOB]["metadata"]["uid"] = answers.uid(78)
    outcome = rig.found()
    assert isinstance(outcome, Failed) and "deleted since" in outcome.found


def test_every_other_step_is_refused_with_its_reason(rig: Rig) -> None:
    for step in (Requeue(job=ID), Move(job=ID, gpus=()), Cancel(job=ID)):
        assert isinstance(rig.give(step), Unsupported)
    assert rig.server.asked == []
    assert rig.engine.can(ID) == dict(CANNOT)
    assert "pause" in rig.engine.can(JobId("pod:vision/other"))
