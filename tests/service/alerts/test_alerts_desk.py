"""Cases and letters on a real store and a real outbox, to servers that fail, stall, recover; and kills."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from advisor.engines.notify_owner import Notice
from advisor.jobs.external_jobs import ExternalJobStore
from advisor.planner.limits import Mode
from advisor.state.model import ActionClass, Job
from advisor.state.owner_replies import Telling
from analytics.query import run
from collector.store.database import Store
from service.alerts.evaluate import AlertDependencies, AlertEvaluator
from service.alerts.facts import Facts
from service.alerts.store import LOST_MS, AlertStore
from service.config.alerting import AlertsConfig, ReceiverConfig
from service.config.telling import DeliveryConfig
from service.notify.message import What, address_of
from service.notify.outbox import Outbox, is_being_sent
from tests.service.alerts.alert_parts import ANN, HOUR_MS, MINUTE_MS, NOW_MS, facts, job, state
from tests.service.delivery.servers import Webhook, webhook
from tests.stores import open_store

WAIT_S = 60
QUICK = AlertsConfig(opens_after_s=0, closes_after_s=0)


@dataclass
class Hands:
    """A clock that tests set."""

    at_ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms

    def sleep(self, seconds: float) -> None:
        self.at_ms += round(seconds * 1000)


class Machine:
    """The machine's clock, a little late: what is posted is due at once."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 - 1_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        raise AssertionError("alerts never sleep")


@dataclass
class Office:
    """A desk on a store; ``sees`` is the cluster that its next look finds."""

    folder: Path
    store: Store
    hook: Webhook
    config: AlertsConfig = QUICK
    delivery: DeliveryConfig = field(default_factory=DeliveryConfig)
    clock: Hands = field(default_factory=Hands)
    jobs: tuple[Job, ...] = ()
    modes: dict[ActionClass, Mode] = field(default_factory=dict)
    desk: AlertEvaluator = field(init=False)

    def __post_init__(self) -> None:
        self.delivery = replace(self.delivery, routes={"ops": (self.hook.address,)})
        self.reborn()

    def reborn(self) -> None:
        """As after a restart: nothing is remembered but what lies in the store and the outbox."""
        self.outbox = Outbox(self.folder, lambda receiver: address_of(receiver, self.delivery, {}))
        self.desk = AlertEvaluator(
            AlertDependencies(
                config=self.config,
                delivery=self.delivery,
                book=AlertStore(self.store),
                outbox=self.outbox,
                clock=self.clock,
                machine=Machine(),
                facts=self.facts,
            )
        )

    def facts(self) -> Facts:
        jobs = tuple(replace(each, idle_since_ms=each.idle_since_ms) for each in self.jobs)
        return replace(
            facts(state(*jobs, as_of_ms=self.clock.at_ms), modes=self.modes),
            now_ms=self.clock.at_ms,
            last_tick_ms=self.clock.at_ms,
            newest_ms={},
        )

    def works(self, minutes: float = 1) -> None:
        self.clock.at_ms += round(minutes * MINUTE_MS)
        self.desk.work()

    def settles(self) -> None:
        """Wait until nothing is under way, then have it noted."""
        until(lambda: not self._under_way(), "what is due was tried")
        self.desk.deliver()

    def _under_way(self) -> bool:
        return any(
            each.standing.state in (None, What.BEGUN) or is_being_sent(self.outbox.folder / each.message.id)
            for each in self.outbox.posted()
        )

    def titles(self) -> list[str]:
        return [str(each["title"]) for each in self.hook.taken]

    def rows(self, **asked: object) -> list[dict[str, Any]]:
        span = {"from_ts": NOW_MS - HOUR_MS, "to_ts": NOW_MS + 1000 * HOUR_MS}
        with self.store.reader() as reader:
            return run(reader, "alerts", {**span, **asked}).to_pylist()


def until(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)


@contextmanager
def office(folder: Path, **given: Any) -> Iterator[Office]:
    with webhook() as hook, open_store(folder / "fallow.duckdb") as store:
        yield Office(folder=folder, store=store, hook=hook, **given)


def idle(minutes: int = 40, **changes: Any) -> Job:
    return job(idle_since_ms=NOW_MS - minutes * MINUTE_MS, started_ms=NOW_MS - 99 * HOUR_MS, **changes)


TO_OPS = replace(QUICK, to=("ops",))
TO_ANN = DeliveryConfig(people={"ann": "ops"})


@pytest.mark.slow
def test_a_case_is_told_once_worse_once_and_over_once_across_restarts(tmp_path: Path) -> None:
    with office(tmp_path, config=TO_OPS, jobs=(idle(),)) as here:
        for _ in range(3):
            here.works()
            here.settles()
            here.reborn()
        here.works(60)
        here.settles()
        here.jobs = ()
        for _ in range(3):
            here.works()
            here.settles()
            here.reborn()
        titles = here.titles()
        assert [title.split("] ")[1].partition(":")[0] for title in titles[1:]] == ["Worse", "Over"]
        assert len(titles) == 3 and titles[0].startswith("[Fallow] ann's notebook")
        (row,) = here.rows()
        assert (row["rung"], row["told"], row["waiting"], row["missed"]) == ("pause", "ops", None, None)
        assert row["because"] == "it holds no GPUs any more"
        assert (here.rows(open=True), len(here.rows(open=False))) == ([], 1)
        assert len(here.rows(user="ann", node="node1", project="vision")) == 1 and here.rows(user="bo") == []


def test_nothing_is_sent_where_nobody_has_an_address_and_the_case_is_there(tmp_path: Path) -> None:
    with office(tmp_path, jobs=(idle(),)) as here:
        here.works()
        assert list(here.outbox.posted()) == []
        (row,) = here.rows()
        assert (row["told"], row["command"]) == (None, f"fallow keep {ANN} --hours 4")


def test_who_is_configured_later_hears_once_of_what_is_open(tmp_path: Path) -> None:
    """Alerts are set up after a look at the dashboard, on which the cases of the first days are."""
    with office(tmp_path, jobs=(idle(),)) as here:
        here.works()
        here.works()
        here.config = TO_OPS
        for _ in range(3):
            here.reborn()
            here.works()
            here.settles()
        (title,) = here.titles()
        assert title.startswith("[Fallow] ann's notebook"), "it is new to them, not worse"
        (row,) = here.rows()
        assert row["told"] == "ops"


@pytest.mark.parametrize("behave", ["refuse", "stall"])
def test_a_server_that_fails_gets_each_word_once_when_it_recovers(tmp_path: Path, behave: str) -> None:
    with office(tmp_path, config=TO_OPS, jobs=(idle(),)) as here:
        here.hook.behave = behave
        here.works()
        here.settles()
        (row,) = here.rows()
        assert (row["waiting"], row["told"]) == ("ops", None)
        here.hook.behave = "take"
        let_time_pass(here.outbox)
        here.reborn()
        here.works()
        until(here.titles, "it arrives")
        here.settles()
        assert len(here.titles()) == 1
        assert here.rows()[0]["told"] == "ops"


def test_a_message_that_is_given_up_is_said_to_have_missed(tmp_path: Path) -> None:
    with office(tmp_path, config=replace(QUICK, to=("nowhere",)), jobs=(idle(),)) as here:
        here.works()
        (posted,) = here.outbox.posted()
        assert "no route 'nowhere'" in posted.standing.found
        from service.notify.message import Event
        from service.notify.outbox import note

        note(here.outbox.folder / posted.message.id, Event(at_ms=1, what=What.GIVEN_UP, found="three days"))
        here.works()
        assert here.rows()[0]["missed"] == "nowhere"


def test_a_receiver_whose_address_was_taken_away_is_nobody(tmp_path: Path) -> None:
    night = ReceiverConfig(begins="08:00", ends="18:00")
    config = replace(QUICK, by_receiver={"ann": night})
    with office(tmp_path, config=config, delivery=TO_ANN, jobs=(idle(),)) as here:
        here.works()
        assert here.rows()[0]["waiting"] == "user:ann"
        here.delivery = replace(here.delivery, people={})
        here.reborn()
        here.works(9 * 60)
        assert here.rows()[0]["missed"] == "user:ann"
        assert list(here.outbox.posted()) == []


@pytest.mark.slow
def test_outside_the_hours_words_wait_and_come_as_one(tmp_path: Path) -> None:
    night = ReceiverConfig(begins="08:00", ends="18:00")
    config = replace(TO_OPS, by_receiver={"*": night}, kinds=("held-idle",))
    jobs = tuple(idle(id=f"pid:node1/{n}@1") for n in range(3))
    with office(tmp_path, config=config, jobs=jobs) as here:
        here.works()
        here.jobs = jobs[:2]
        here.works(60)
        assert list(here.outbox.posted()) == []
        here.reborn()
        here.works(8 * 60)
        until(here.titles, "the digest arrives")
        here.settles()
        (title,) = here.titles()
        assert title == "[Fallow] 3 alerts: ann's notebook (pid:node1/0@1) does nothing on H100 node1:0"
        text = str(here.hook.taken[0]["message"])
        assert text.startswith("2 cases, and 1 that came and went.")
        assert {row["told"] for row in here.rows()} == {"ops"}


@pytest.mark.slow
def test_a_storm_is_bounded_and_the_rest_comes_in_the_next_digest(tmp_path: Path) -> None:
    config = replace(TO_OPS, by_receiver={"ops": ReceiverConfig(most_per_hour=2, digest_at=("01:00",))})
    jobs = tuple(idle(id=f"pid:node1/{n}@1") for n in range(30))
    with office(tmp_path, config=config, jobs=jobs) as here:
        for _ in range(5):
            here.works()
            here.settles()
        assert len(here.titles()) == 2
        here.works(60)
        here.settles()
        until(lambda: len(here.titles()) >= 3, "the digest arrives")
        here.settles()
        digest = [each for each in here.hook.taken if "28 cases" in str(each["message"])]
        assert len(digest) == 1
        assert {row["told"] for row in here.rows()} == {"ops"}


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.service.alerts.test_alerts_desk import *
folder, port, where = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
hook = Webhook(port=port)
with open_store(folder / "fallow.duckdb") as store:
    here = Office(folder=folder, store=store, hook=hook, config=TO_OPS, jobs=(idle(),))
    def die(*given, **more):
        os.kill(os.getpid(), signal.SIGKILL)
    for name, owner in {
        "before-keeping": (here.desk._ground.book, "keep"),
        "before-posting": (here.desk._ground.outbox, "post"),
        "before-noting": (here.desk._ground.book, "posted"),
        "before-sending": (here.desk._ground.outbox, "push"),
        "before-settling": (here.desk._ground.book, "settled"),
    }.items():
        if name == where:
            setattr(owner[0], owner[1], die)
    here.works()
    here.settles()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["before-keeping", "before-posting", "before-noting", "before-sending", "before-settling"]
)
def test_killed_at_any_point_a_word_is_neither_lost_nor_sent_twice(tmp_path: Path, where: str) -> None:
    with webhook() as hook:
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(hook.port), where]
        done = subprocess.run(
            command, cwd=Path(__file__).parents[3], capture_output=True, timeout=120, check=False
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
        with open_store(tmp_path / "fallow.duckdb") as store:
            here = Office(folder=tmp_path, store=store, hook=hook, config=TO_OPS, jobs=(idle(),))
            for _ in range(2):
                here.works()
                here.settles()
                here.reborn()
            assert len(hook.taken) == 1
            (row,) = here.rows()
            assert row["told"] == "ops"


NOTICE = Notice(job=ANN, user="ann", uid=None, message="It idles. It may be paused.", hint="fallow keep it")


def tellings(here: Office) -> list[Telling]:
    words = ExternalJobStore(here.store, here.clock).words()
    return [word for word in words if isinstance(word, Telling)]


def ladder_tells(here: Office, reached: tuple[str, ...] = ()) -> Any:
    """The ladder's step, as its engine does it: tell on every way, then write down whom it reached."""
    told = here.desk.tell(NOTICE, "ann")
    ExternalJobStore(here.store, here.clock).told(ANN, "tell", NOTICE.message, (*reached, *told.reached))
    return told


AUTO = {ActionClass.RECLAIM: Mode.AUTO}


@pytest.mark.slow
def test_the_ladders_telling_reaches_the_owner_when_it_arrives_and_not_before(tmp_path: Path) -> None:
    with office(tmp_path, config=TO_OPS, delivery=TO_ANN, jobs=(idle(),), modes=AUTO) as here:
        here.hook.behave = "refuse"
        told = ladder_tells(here)
        assert told.reached == () and "on its way to ann" in told.missed[0]
        here.works(30)
        here.settles()
        (telling,) = tellings(here)
        assert (telling.at_ms, telling.reached) == (NOW_MS, None)
        here.hook.behave = "take"
        let_time_pass(here.outbox)
        here.works(50)
        until(
            lambda: any("It may be paused" in str(each["message"]) for each in here.hook.taken), "it arrives"
        )
        here.settles()
        (telling,) = tellings(here)
        assert telling.reached == "message to ann"
        assert telling.at_ms == here.clock.at_ms, "the grace runs from its arrival"
        text = next(str(e["message"]) for e in here.hook.taken if "It may be paused" in str(e["message"]))
        assert f"fallow keep {ANN} --hours 4" in text and "H100 node1:0" in text
        here.works()
        assert tellings(here) == [telling]


def test_who_was_told_on_a_terminal_as_well_was_told_once_and_then(tmp_path: Path) -> None:
    with office(tmp_path, delivery=TO_ANN, jobs=(idle(),), modes=AUTO) as here:
        ladder_tells(here, ("terminal pts/1",))
        here.settles()
        (telling,) = tellings(here)
        assert (telling.at_ms, telling.reached) == (NOW_MS, "terminal pts/1, message to ann")


@pytest.mark.slow
def test_the_owner_gets_the_ladders_word_alone_and_hears_when_it_is_over(tmp_path: Path) -> None:
    with office(tmp_path, config=TO_OPS, delivery=TO_ANN, jobs=(idle(),), modes=AUTO) as here:
        ladder_tells(here)
        here.works()
        here.settles()
        assert sorted("It may be paused" in str(each["message"]) for each in here.hook.taken) == [False, True]
        here.jobs = ()
        here.works()
        here.settles()
        over = [title for title in here.titles() if "Over: " in title]
        assert len(over) == 2, "the owner and the operators"


def test_a_second_telling_waits_for_the_first_one_to_arrive(tmp_path: Path) -> None:
    with office(tmp_path, delivery=TO_ANN, jobs=(idle(),), modes=AUTO) as here:
        here.hook.behave = "refuse"
        ladder_tells(here)
        here.clock.at_ms += HOUR_MS
        assert "under way already" in ladder_tells(here).missed[0]
        assert len(list(here.outbox.posted())) == 1


def test_a_telling_that_a_crash_lost_is_written_down_when_its_message_arrived(tmp_path: Path) -> None:
    with office(tmp_path, delivery=TO_ANN, jobs=(idle(),), modes=AUTO) as here:
        here.desk.tell(NOTICE, "ann")
        here.settles()
        assert tellings(here) == []
        here.works(LOST_MS / MINUTE_MS)
        (telling,) = tellings(here)
        assert telling.reached == "message to ann"
        here.works()
        assert len(tellings(here)) == 1


@pytest.mark.slow
def test_outside_the_owners_hours_nobody_is_reached_and_the_digest_counts(tmp_path: Path) -> None:
    config = replace(QUICK, by_receiver={"ann": ReceiverConfig(begins="08:00", ends="18:00")})
    jobs = (idle(), idle(id="pid:node1/8@1"))
    with office(tmp_path, config=config, delivery=TO_ANN, jobs=jobs, modes=AUTO) as here:
        assert "kept for ann's hours" in ladder_tells(here).missed[0]
        here.desk.tell(replace(NOTICE, job=jobs[1].id), "ann")
        here.works(60)
        assert [each.reached for each in tellings(here)] == [None]
        here.works(8 * 60)
        until(here.titles, "the digest arrives")
        here.settles()
        assert len(here.titles()) == 1
        assert sorted(each.job for each in tellings(here)) == sorted(each.id for each in jobs)
        assert {each.reached for each in tellings(here)} == {"message to ann"}


@pytest.mark.parametrize("user", [None, "bo"])
def test_an_owner_without_an_address_is_missed_with_the_reason(tmp_path: Path, user: str | None) -> None:
    with office(tmp_path, delivery=TO_ANN, jobs=(idle(),)) as here:
        told = here.desk.tell(replace(NOTICE, user=user), user)
        assert told.reached == () and "no address of" in told.missed[0]


def test_a_word_about_a_job_that_is_not_idle_is_sent_as_it_is(tmp_path: Path) -> None:
    with office(tmp_path, delivery=TO_ANN, jobs=()) as here:
        here.desk.tell(replace(NOTICE, message="Please give memory back."), "ann")
        here.settles()
        (taken,) = here.hook.taken
        assert taken["title"] == f"[Fallow] About your job {ANN}"
        assert taken["message"] == "Please give memory back.\n\nfallow keep it"
        assert here.rows() == []


def let_time_pass(outbox: Outbox) -> None:
    """Date the log's events back: senders take the machine's time, and nobody waits half a minute here."""
    from service.notify.outbox import note, read_log

    for posted in outbox.posted():
        place = outbox.folder / posted.message.id
        events = read_log(place)
        (place / "log.jsonl").unlink(missing_ok=True)
        for event in events:
            note(place, replace(event, at_ms=0))
