"""One case and one message a job, whatever is found of it: at once, in turn, their ends, an older store."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analytics.model import Evidence
from service.alerts.lifecycle import Docket, Watch, after, follow
from service.alerts.messages import letters_of, title_of
from service.alerts.model import Change, Condition, Incident, Turn, kinds_of, untold_of
from service.alerts.one_case import asked_keys, at_case, joined
from service.alerts.store import AlertStore
from service.config.alerting import AlertsConfig
from service.config.telling import DeliveryConfig
from tests.service.alerts.alert_parts import HOUR_MS, MINUTE_MS, NOW_MS, PATIENCE, condition, look
from tests.stores import open_store

JOB = "slurm:7"
HOG, SLOW, IDLE, CRASH = (f"{kind}:{JOB}" for kind in ("memory-hog", "straggler", "held-idle", "crash-loop"))
RULES = (AlertsConfig(to=("ops",)), DeliveryConfig())


def of_job(key: str, level: int = 2) -> Condition:
    return condition(key, level, job=JOB, says=f"{key} is so.", next=f"Of {key} nothing is done.")


class Desk:
    """Looks one after the other, as the service takes them; the words that went out."""

    def __init__(self, docket: Docket | None = None) -> None:
        self.docket, self.watch = docket or Docket(), Watch()
        self.words: list[tuple[int, Change]] = []

    def look(self, minute: float, *holds: Condition, unknown: Sequence[str] = ()) -> None:
        at_ms = NOW_MS + round(minute * MINUTE_MS)
        asked = asked_keys(self.docket.open.values())
        known = {each.key for each in holds} | set(unknown)
        calm = {key: f"{key.partition(':')[0]} is over" for key in asked if key not in known}
        seen = joined(look(at_ms, *holds, unknown=tuple(unknown), calm=calm), self.docket)
        self.watch, changes = follow(self.docket, self.watch, seen, PATIENCE)
        self.docket = after(self.docket, changes, at_ms, PATIENCE)
        self.words += [(round(minute), change) for change in changes if change.word]

    def through(self, minutes: range, *holds: Condition) -> None:
        for minute in minutes:
            self.look(minute, *holds)

    @property
    def told(self) -> list[tuple[int, Turn]]:
        return [(minute, change.turn) for minute, change in self.words]


def test_two_kinds_at_once_are_one_case_and_one_message() -> None:
    desk = Desk()
    desk.through(range(30), of_job(HOG), of_job(SLOW))
    assert desk.told == [(2, Turn.OPENED)]
    (case,) = desk.docket.open.values()
    assert kinds_of(case.condition) == ("straggler", "memory-hog")
    assert HOG in case.condition.says and SLOW in case.condition.says
    (letter,) = letters_of(desk.words[0][1], NOW_MS, RULES, (), {})
    assert letter.title == f"{SLOW} is odd; also: memory hog"


def test_a_second_kind_within_the_quiet_time_is_shown_and_told_when_that_is_over() -> None:
    desk = Desk()
    desk.through(range(60), of_job(HOG))
    desk.through(range(60, 241), of_job(HOG), of_job(SLOW))
    (case,) = desk.docket.open.values()
    assert (case.key, untold_of(case.condition)) == (HOG, ("straggler",))
    assert desk.told == [(2, Turn.OPENED)], "four hours of quiet"
    desk.through(range(241, 300), of_job(HOG), of_job(SLOW))
    assert desk.told == [(2, Turn.OPENED), (242, Turn.UPDATED)]
    (case,) = desk.docket.open.values()
    assert untold_of(case.condition) == ()
    assert title_of(case, Turn.UPDATED).startswith("Update: ")


def test_the_end_of_one_kind_is_shown_and_the_end_of_both_is_told() -> None:
    desk = Desk()
    desk.through(range(10), of_job(HOG), of_job(SLOW))
    desk.through(range(10, 60), of_job(HOG))
    assert desk.told == [(2, Turn.OPENED)]
    (case,) = desk.docket.open.values()
    assert (case.key, kinds_of(case.condition)) == (SLOW, ("memory-hog",))
    desk.through(range(60, 90))
    assert desk.told == [(2, Turn.OPENED), (70, Turn.CLOSED)]
    assert desk.words[-1][1].case.because == "memory-hog is over"
    assert not desk.docket.open


def test_what_is_not_known_keeps_the_case_and_its_kinds() -> None:
    desk = Desk()
    desk.through(range(10), of_job(HOG), of_job(SLOW))
    for minute in range(10, 60):
        desk.look(minute, of_job(HOG), unknown=(SLOW,))
    (case,) = desk.docket.open.values()
    assert set(kinds_of(case.condition)) == {"straggler", "memory-hog"}
    for minute in range(60, 120):
        desk.look(minute, unknown=(SLOW,))
    assert desk.told == [(2, Turn.OPENED)] and desk.docket.open, "neither bad nor calm"


def test_a_kind_after_the_case_of_another_was_closed_keeps_the_quiet_time() -> None:
    desk = Desk()
    desk.through(range(10), of_job(HOG))
    desk.through(range(10, 40))
    desk.through(range(40, 100), of_job(SLOW))
    assert desk.told == [(2, Turn.OPENED), (20, Turn.CLOSED)]
    desk.through(range(240, 250), of_job(SLOW))
    assert desk.told[2:] == [(242, Turn.WORSE)]


def test_worse_is_told_at_once_within_the_quiet_time_too() -> None:
    desk = Desk()
    desk.through(range(10), of_job(HOG))
    desk.through(range(10, 20), of_job(HOG), of_job(IDLE, level=4))
    assert desk.told == [(2, Turn.OPENED), (12, Turn.WORSE)]
    assert title_of(desk.words[-1][1].case, Turn.WORSE) == f"Worse: {IDLE} is odd; also: memory hog"


def test_two_open_cases_of_an_older_store_are_not_told_again_and_both_end() -> None:
    cases = [
        Incident(number=at, condition=of_job(key), opened_ms=NOW_MS, told_level=2, told_ms=NOW_MS)
        for at, key in enumerate((HOG, SLOW), 1)
    ]
    desk = Desk(Docket(open={case.key: case for case in cases}, next_number=3))
    desk.through(range(60), of_job(HOG), of_job(SLOW))
    assert desk.told == [] and len(desk.docket.open) == 2
    desk.through(range(60, 80))
    assert not desk.docket.open


def test_a_restart_knows_the_kinds_of_a_case_and_which_of_them_are_untold(tmp_path: Path) -> None:
    """The kind with which it began has ended, another is left, a third one came: as the store has it."""
    desk = Desk()
    desk.through(range(10), of_job(SLOW))
    desk.through(range(10, 12), of_job(HOG))
    with open_store(tmp_path / "fallow.duckdb") as store:
        book = AlertStore(store)
        for cases in (desk.docket, after_looks(desk, range(12, 14), of_job(HOG), of_job(CRASH))):
            book.keep(
                [Change(case=case, turn=Turn.UPDATED, word=False) for case in cases.open.values()], (), NOW_MS
            )
        docket = book.docket(NOW_MS - HOUR_MS)
    (case,) = docket.open.values()
    assert (case.key, case.condition.kind, case.number) == (SLOW, "crash-loop", 1)
    assert set(kinds_of(case.condition)) == {"memory-hog", "crash-loop"}
    assert set(untold_of(case.condition)) == {"memory-hog", "crash-loop"}
    again = Desk(docket)
    again.through(range(14, 30))
    assert again.told == [(24, Turn.CLOSED)]


def after_looks(desk: Desk, minutes: range, *holds: Condition) -> Docket:
    desk.through(minutes, *holds)
    return desk.docket


def test_jobs_gpus_and_sources_stay_apart() -> None:
    other = replace(of_job("memory-hog:slurm:8"), job="slurm:8")
    fault = condition("gpu-fault:GPU-0")
    seen = joined(look(NOW_MS, of_job(HOG), other, fault), Docket())
    assert set(seen.holds) == {HOG, other.key, fault.key}
    assert seen.holds[HOG].evidence == (), "one kind stays as it was"


def test_the_ladders_word_is_about_the_case_that_is_open() -> None:
    case = Incident(number=1, condition=of_job(HOG), opened_ms=NOW_MS - HOUR_MS)
    docket = Docket(open={case.key: case})
    assert at_case(of_job(IDLE), docket).key == HOG
    assert at_case(of_job("held-idle:slurm:9"), docket).key == "held-idle:slurm:9"
    assert kinds_of(replace(of_job(HOG), evidence=(Evidence(name="kinds", value="a, b"),))) == ("a", "b")
