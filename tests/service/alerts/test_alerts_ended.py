"""The message at a job's end: asked for, of jobs of a size, once; efficiency in one line and the verdict."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.state.model import Phase
from collector.model import JobId
from service.alerts.ended_jobs import BACK_MS, least_gpu_hours
from service.alerts.facts import Ended, Facts
from service.alerts.inputs import ends_of
from service.alerts.messages import audience, text_of, title_of
from service.alerts.model import AlertKind, Condition, Incident, Turn
from service.alerts.rules import sight
from service.config.alerting import AlertsConfig, ReceiverConfig
from service.config.telling import DeliveryConfig
from tests.service import one_sum_world as world
from tests.service.alerts.alert_parts import GPUS, HOUR_MS, MINUTE_MS, NOW_MS, facts, job, state
from tests.service.alerts.test_alerts_desk import Hands, Office, until
from tests.service.alerts.test_alerts_real import Postbox, postbox
from tests.service.delivery.servers import webhook
from tests.stores import open_store

__all__ = ["postbox"]

ROW = {
    "job": "4711",
    "job_name": "train",
    "user_name": "ann",
    "project": "vision",
    "kind": "batch",
    "gpus": 4,
    "gpu_hours": 96.0,
    "used_gpu_hours": 20.2,
    "wasted_gpu_hours": 71.0,
    "unknown_gpu_hours": 0.0,
    "busy_gpu_hours": 25.0,
    "utilization_ratio": 0.21,
    "memory_used_max_bytes": 40 << 30,
    "gpus_used": 1,
    "rung": 3,
    "found": "allocated-empty, uses-part",
    "to_ts": "2026-11-01 22:00",
}
ENDED = Ended(
    job=JobId("4711"), from_ms=NOW_MS - 26 * HOUR_MS, to_ms=NOW_MS - 2 * HOUR_MS, gpus=GPUS, row=ROW
)
OWNERS = AlertsConfig(opens_after_s=0, closes_after_s=0, ended_gpu_hours=1.0)
REACHED = DeliveryConfig(people={"ann": "ops", "bo": "ops"}, projects={"vision": "heads"})


def condition(**row: object) -> Condition:
    ended = replace(ENDED, row={**ROW, **row})
    (found,) = sight(facts(state(), ended=(ended,)), OWNERS, ()).holds.values()
    return found


def told(config: AlertsConfig, hours: float) -> list[str]:
    delivery = replace(REACHED, people={"ann": "mail"})
    return [each.id for each in audience(condition(gpu_hours=hours), config, delivery)]


def test_one_line_says_what_it_was_given_and_made_of_it_and_then_the_verdict() -> None:
    case = Incident(number=7, condition=condition(), opened_ms=NOW_MS)
    assert title_of(case, Turn.WORSE) == "ann's train (4711) has ended: used 1 of 4 GPUs"
    first, *more = text_of(case, Turn.OPENED, ReceiverConfig()).split("\n\n")
    assert first == (
        "4 GPUs · 96.0 GPU-hours given, 20.2 used (21%), 71.0 wasted (74%) · most memory on a GPU 40 GiB. "
        "Its verdict: used 1 of 4 GPUs. It held GPUs from 2026-10-31 22:00 UTC to 2026-11-01 22:00 UTC."
    )
    assert "Next time: give the allocation back" in more[0]
    assert more[2] == "To look at it: fallow job 4711 --since 2026-10-31"


def test_nobody_is_told_unless_asked_and_only_of_jobs_of_a_size() -> None:
    silent = AlertsConfig(to=("ops",))
    assert least_gpu_hours(silent) is None and told(silent, 1e5) == []
    assert told(replace(OWNERS, to=("ops",)), 2.0) == ["user:ann"], "operators have not asked"
    assert told(OWNERS, 0.9) == []
    own = replace(OWNERS, by_receiver={"ann": ReceiverConfig(ended_gpu_hours=50.0)})
    assert (told(own, 49.0), told(own, 50.0)) == ([], ["user:ann"])
    ops = replace(silent, by_receiver={"ops": ReceiverConfig(ended_gpu_hours=50.0)})
    assert (least_gpu_hours(ops), told(ops, 60.0)) == (50.0, ["to:ops"])
    heads = replace(silent, by_receiver={"heads": ReceiverConfig(ended_gpu_hours=5.0)})
    assert told(heads, 6.0) == ["project:vision"]
    everybody = replace(silent, by_receiver={"*": ReceiverConfig(ended_gpu_hours=5.0)})
    assert told(everybody, 6.0) == ["user:ann"], "a table for all others makes no operator ask"
    assert least_gpu_hours(replace(OWNERS, kinds=("held-idle",))) is None


def test_a_job_that_is_paused_or_waits_has_not_ended() -> None:
    paused = job(JobId("4711"), phase=Phase.PAUSED)
    seen = sight(facts(state(paused), ended=(ENDED,)), OWNERS, ())
    assert not seen.holds and seen.calm["job-ended:4711"] == "it has not ended"


class Ending(Office):
    """An office whose looks find the jobs that have ended in its store."""

    def facts(self) -> Facts:
        with self.store.reader() as reader:
            ended = tuple(ends_of(reader, self.config, self.clock.at_ms))
        return replace(super().facts(), ended=ended)


@contextmanager
def ending(folder: Path, config: AlertsConfig, delivery: DeliveryConfig = REACHED) -> Iterator[Ending]:
    """As of noon of the world's day, when Bo's job runs; it ends at half past one after 1.5 GPU-hours."""
    world.fill(folder)
    with webhook() as hook, open_store(folder / "fallow.duckdb") as store:
        clock = Hands(at_ms=world.NOON_MS)
        here = Ending(folder=folder, store=store, hook=hook, config=config, delivery=delivery, clock=clock)
        here.works()
        here.clock.at_ms = world.NOON_MS + 90 * MINUTE_MS
        yield here


@pytest.mark.slow
def test_a_jobs_end_is_told_once_across_restarts_and_its_case_closes_without_a_word(tmp_path: Path) -> None:
    with ending(tmp_path, OWNERS) as here:
        here.works(2)
        assert here.rows() == [], "the ledger's newest minutes are being written"
        for _ in range(4):
            here.works(4)
            here.settles()
            here.reborn()
        (title,) = here.titles()
        assert title.startswith("[Fallow] bo's ") and "has ended: did not compute" in title
        said = str(here.hook.taken[0]["message"])
        assert said.startswith("1 GPU · 1.5 GPU-hours given, 0.0 used (0%), 1.5 wasted (100%)")
        (row,) = here.rows(from_ts=world.NOON_MS)
        assert (row["kind"], row["told"], row["because"]) == ("job-ended", "user:bo", "it was told")


@pytest.mark.slow
def test_a_word_that_was_not_sent_before_a_stop_goes_out_after_it(tmp_path: Path) -> None:
    with ending(tmp_path, OWNERS) as here:
        here.clock.at_ms += 6 * MINUTE_MS
        here.desk.look()
        assert here.titles() == []
        here.reborn()
        here.works(3 * 24 * 60)
        here.settles()
        assert len(here.titles()) == 1


@pytest.mark.slow
def test_a_service_that_was_away_tells_of_the_ends_of_a_week_and_of_nothing_older(tmp_path: Path) -> None:
    with ending(tmp_path, OWNERS) as here:
        here.reborn()
        here.works(BACK_MS / MINUTE_MS - 5)
        here.settles()
        assert len(here.titles()) == 1
    with ending(tmp_path / "late", OWNERS) as late:
        late.works(BACK_MS / MINUTE_MS + 5)
        assert late.rows() == []


def test_of_what_ended_before_it_was_switched_on_nobody_is_told(tmp_path: Path) -> None:
    with ending(tmp_path, AlertsConfig(opens_after_s=0)) as here:
        here.works(60)
        here.config = OWNERS
        for _ in range(3):
            here.reborn()
            here.works(10)
        assert here.rows() == []


@pytest.mark.slow
def test_ends_come_in_a_digest_where_a_receiver_wants_them_so(tmp_path: Path) -> None:
    wishes = ReceiverConfig(gather=(AlertKind.JOB_ENDED.value,), digest_at=("17:00",))
    with ending(tmp_path, replace(OWNERS, by_receiver={"bo": wishes})) as here:
        here.works(10)
        assert here.titles() == [] and here.rows()[0]["waiting"] == "user:bo"
        here.works(4 * 60)
        here.settles()
        until(here.titles, "the digest arrives")
        assert len(here.titles()) == 1


@pytest.mark.slow
def test_a_real_mail_at_a_jobs_end(tmp_path: Path, postbox: tuple[Postbox, int]) -> None:
    box, port = postbox
    person = f"mailto://127.0.0.1:{port}/?from=fallow@lab.example&to={{user}}@lab.example&mode=insecure"
    with ending(tmp_path, OWNERS, DeliveryConfig(person=person)) as here:
        here.works(10)
        until(lambda: box.mails, "the mail comes")
        here.settles()
        here.works(10)
        here.settles()
    (mail,) = box.mails
    assert "bo@lab.example" in str(mail["To"])
