"""Wasted is one thing: every query, verb, report and page gives the sum that was counted on paper."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console, RenderableType

from advisor.planner.plan import Advice
from advisor.state.model import ActionClass
from analytics import text
from collector.model import WASTE_STATES, JobId
from service.charts.window import Window
from service.cli import main
from service.cli.advice_lines import draw_advice
from service.client import Client, connect
from service.pages import people as people_page
from service.pages.job import began_earlier
from service.pages.parts import advised as advised_part
from service.pages.parts import range_waste
from service.pages.parts.finding_messages import messages
from service.reports.build import Wanted, make
from service.reports.model import ReportKind, Span, Table
from service.reports.render import plain
from service.schemas.advice import AdviceRow
from service.summaries.finding_groups import by_kind, grouped, once_a_gpu, once_a_job, others
from service.summaries.headline import headline
from service.summaries.holders import named
from service.usecases.advice_rows import advice_row
from service.usecases.recurring import known_gain, recurred, told, told_gain, told_to_owner
from tests.service import one_sum_world as world

RANGE = {"from_ts": world.NOON, "to_ts": world.END}
FLAGS = ["--since", "2026-11-01T12:00", "--until", "2026-11-01T15:00"]
LEDGERS = ("gpu", "node", "model", "user", "project", "job", "framework", "day", "hour")
MANAGED = ("partition", "qos", "account", "cluster")
TOTALS = (*(f"ledger_by_{key}" for key in (*LEDGERS, *MANAGED)), "jobs", "people", "projects", "waste")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.fill(tmp_path_factory.mktemp("one-sum") / "data")


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[Client]:
    with connect(data) as opened:
        yield opened


@pytest.fixture
def late(tmp_path: Path) -> Iterator[Client]:
    with connect(world.fill_late(tmp_path / "late")) as opened:
        yield opened


def said(data: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--data", str(data)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", TOTALS)
def test_every_query_has_the_sum(client: Client, name: str) -> None:
    rows = client.rows(name, **RANGE)
    assert sum(row["wasted_gpu_hours"] for row in rows) == pytest.approx(world.WASTED)
    costs = [row["wasted_cost"] for row in rows if "wasted_cost" in row and row["wasted_gpu_hours"]]
    assert sum(costs) == pytest.approx(world.COST if costs else 0.0)


def test_the_states_have_the_sum(client: Client) -> None:
    hours = {row["state"]: row["gpu_hours"] for row in client.rows("ledger_by_state", **RANGE)}
    assert sum(hours[state] for state in WASTE_STATES) == pytest.approx(world.WASTED)
    assert hours["low-saturation"] == pytest.approx(world.LOW)
    assert sum(hours.values()) == pytest.approx(12.0)


def test_what_the_replay_and_the_simulator_are_fed_has_the_sum(client: Client) -> None:
    recorded = sum(row["idle_gpu_hours"] for row in client.rows("recorded_jobs", **RANGE))
    past = sum(row["idle_ms"] * row["share"] for row in client.rows("past_jobs", **RANGE)) / 3_600_000
    assert (recorded, past) == pytest.approx((world.WASTED, world.WASTED))


@pytest.mark.parametrize("name", [*(f"ledger_by_{key}" for key in LEDGERS), "jobs", "people", "projects"])
def test_energy_by_every_key_adds_up_to_the_boards(client: Client, name: str) -> None:
    rows = client.rows(name, **RANGE)
    nobodys = 0.0 if name.startswith("ledger") else world.KWH_BY_USER["nobody"]
    assert sum(row["energy_kwh"] for row in rows) == pytest.approx(world.ENERGY_KWH - nobodys)
    assert sum(row["wasted_energy_kwh"] for row in rows) == pytest.approx(world.WASTED_KWH)
    assert {row["energy_known_ratio"] for row in rows} == {1.0}


def test_energy_is_in_the_state_in_which_it_was_used(client: Client) -> None:
    rows = {row["state"]: row["energy_kwh"] for row in client.rows("ledger_by_state", **RANGE)}
    assert {state: kwh for state, kwh in rows.items() if kwh} == pytest.approx(world.KWH_BY_STATE)
    users = {
        row["key"] or ("pod:x" if row["held_gpu_hours"] else "nobody"): row["energy_kwh"]
        for row in client.rows("ledger_by_user", **RANGE)
    }
    assert users == pytest.approx(world.KWH_BY_USER)
    (waste,) = client.rows("waste", **RANGE)
    assert waste["wasted_energy_kwh"] == pytest.approx(world.WASTED_KWH)
    on = client.rows("job_gpus", job="slurm:1", **RANGE)
    assert [row["energy_kwh"] for row in on] == pytest.approx([0.7, 0.4])
    assert [row["wasted_energy_kwh"] for row in on] == pytest.approx([0.2, 0.2])


def test_a_finding_bears_the_energy_of_what_its_holder_wasted(client: Client) -> None:
    found = {row["kind"]: row for row in client.rows("findings", **RANGE) if row["job"] == "slurm:1"}
    wasted = {
        row["uuid"]: row["wasted_energy_kwh"] for row in client.rows("job_gpus", job="slurm:1", **RANGE)
    }
    idle, part = found["held-idle"], found["uses-part"]
    assert idle["wasted_energy_kwh"] == pytest.approx(wasted[idle["uuid"]])
    assert part["wasted_energy_kwh"] == pytest.approx(sum(wasted.values()))
    assert part["wasted_energy_known_ratio"] == 1.0


def test_the_verb_findings_says_what_the_waste_drew(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = " ".join(said(data, capsys, "findings", *FLAGS).split())
    assert f"GPU-hours wasted, 30.00 EUR, {world.WASTED_KWH:.1f} kWh" in head


def test_the_status_of_a_stale_store_is_of_its_instant_alone(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was and what is don't stand in one line: the counts are all of then, and add up."""
    shown = " ".join(said(data, capsys, "status").split())
    assert "what follows is how it was at 2026-11-01 1" in shown and "how it is now is unknown" in shown
    (counts,) = re.findall(r"then: ([\d.]+) held and idle · ([\d.]+) free · ([\d.]+) unknown", shown)
    (installed,) = re.findall(r"([\d.]+) GPUs? ·", shown)
    assert sum(map(float, counts)) <= float(installed)


def test_waste_says_what_findings_name_and_counts_an_hour_once(client: Client) -> None:
    (row,) = client.rows("waste", **RANGE)
    assert (row["open_gpu_hours"], row["found_gpu_hours"]) == pytest.approx((world.OPEN, world.FOUND))
    assert (row["low_saturation_gpu_hours"], row["held_gpu_hours"]) == pytest.approx((world.LOW, world.HELD))
    assert (row["wasted_cost"], row["currency"]) == (pytest.approx(world.COST), "EUR")
    (part,) = client.rows("waste", **RANGE, user="bo")
    assert (part["wasted_gpu_hours"], part["open_gpu_hours"]) == pytest.approx((1.5, 0.0))


@pytest.mark.slow
def test_a_range_has_its_own_sum(client: Client) -> None:
    hour = {"from_ts": world.NOON.replace(hour=13), "to_ts": world.NOON.replace(hour=14)}
    for name in TOTALS:
        rows = client.rows(name, **hour)
        assert sum(row["wasted_gpu_hours"] for row in rows) == pytest.approx(world.SECOND_HOUR), name
    found = client.rows("findings", **hour)
    assert {row["kind"]: row["wasted_gpu_hours"] for row in found if row["uuid"] != "GPU-0"} == pytest.approx(
        {"held-idle": 1.0, "low-saturation": 1.0, "uses-part": 2.0, "allocated-empty": 0.5}
    )


def test_what_was_found_at_the_very_end_of_a_range_is_in_it(client: Client) -> None:
    """An import's findings are all of the moment of its newest sample."""
    until = world.NOON + timedelta(minutes=80)
    span = {"from_ts": world.NOON, "to_ts": until}
    assert client.rows("findings", **span)
    assert client.rows("waste", **span)[0]["found_gpu_hours"] > 0
    assert any(row["found"] for row in client.rows("jobs", **span))
    before = {"from_ts": world.NOON, "to_ts": until - timedelta(minutes=1)}
    assert client.rows("findings", **before) == []
    assert not any(row["found"] for row in client.rows("jobs", **before))


@pytest.mark.parametrize("until", ["2026-11-01T13:20", "2026-11-01T13:19:30"])
def test_the_verb_findings_has_what_was_found_in_the_minute_it_ends(
    data: Path, capsys: pytest.CaptureFixture[str], until: str
) -> None:
    flags = ("--all", "--json", "--since", "2026-11-01T12:00", "--until", until)
    assert json.loads(said(data, capsys, "findings", *flags))


def test_a_finding_bears_what_its_holder_wasted_there_and_a_jobs_what_the_job_did(client: Client) -> None:
    found = {(row["uuid"], row["kind"]): row for row in client.rows("findings", **RANGE)}
    hours = {key: row["wasted_gpu_hours"] for key, row in found.items()}
    assert hours == pytest.approx(
        {
            ("GPU-0", "held-idle"): 2.0,
            ("GPU-1", "held-idle"): 2.0,
            ("GPU-1", "low-saturation"): 2.0,
            ("GPU-1", "uses-part"): 4.0,
            ("GPU-2", "allocated-empty"): 1.5,
        }
    )
    low = found["GPU-1", "low-saturation"]
    assert (low["low_saturation_gpu_hours"], low["wasted_cost"], low["currency"]) == (1.0, 8.0, "EUR")


@pytest.mark.parametrize(("flag", "named"), [([], world.OPEN), (["--all"], world.FOUND)])
def test_the_verb_findings_has_the_sum_of_the_range(
    data: Path, capsys: pytest.CaptureFixture[str], flag: list[str], named: float
) -> None:
    head = " ".join(said(data, capsys, "findings", *FLAGS, *flag).splitlines()[:5])
    assert "7.5 GPU-hours wasted, 30.00 EUR" in head
    assert f"{named} of them" in head
    assert "1.0 GPU-hours at low saturation" in head


def test_what_is_found_about_one_job_is_one_message(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """held-idle on both of ana's GPUs, and two kinds more: one message of 4.0, which an hour is in once."""
    shown = said(data, capsys, "findings", *FLAGS).splitlines()
    assert "1 open finding" in shown
    (at,) = (place for place, line in enumerate(shown) if " · ana · " in line)
    assert shown[at].startswith("uses-part, low-saturation  n1:1 and 1 more · ana · vision · found")
    assert shown[at].endswith("4.0 GPU-hours wasted")
    assert [line.endswith("on GPU 1 of n1.") for line in shown[at + 1 : at + 4]] == [True, True, False]


def test_findings_are_grouped_by_job_and_hours_count_once() -> None:
    found = [("held-idle", "a", True), ("held-idle", "a", True), ("held-idle", "a", False)]
    found += [("falling-gpu", None, True), ("falling-gpu", None, True), ("memory-hog", "a", True)]
    found += [("uses-part", "a", True), ("intruder", "a", True), ("a-newer-kind", "a", True)]
    groups = grouped(found, lambda each: each)
    assert [[kind for kind, _, _ in group] for group in groups] == [
        ["uses-part", "held-idle", "held-idle", "memory-hog"],
        ["held-idle"],
        ["falling-gpu"],
        ["falling-gpu"],
        ["intruder"],
        ["a-newer-kind"],
    ], "what a job does is one message, what is done to it or its GPUs another"
    kinds = [
        [each[0][0] for each in by_kind(groups[0], lambda each: each[0], is_open=o)] for o in (True, False)
    ]
    assert kinds == [["uses-part", "memory-hog"], ["uses-part", "held-idle", "memory-hog"]]
    assert once_a_job([("uses-part", "x", 5.0), ("held-idle", "x", 1.0), ("held-idle", "y", 2.0)]) == 5.0
    assert once_a_job([("held-idle", "x", 1.0), ("memory-hog", "x", 1.0), ("held-idle", "y", 2.0)]) == 3.0
    assert once_a_gpu([("x", 2.0), ("x", 2.0), ("y", 1.0), ("z", None), ("w", float("nan"))]) == 3.0
    assert once_a_gpu([("x", None)]) is None
    assert others(["n1:1", "n1:1", "n1:2"]) == "The same on 2 more GPUs: n1:1, n1:2."
    assert others([str(n) for n in range(7)]) == "The same on 7 more GPUs: 0, 1, 2, 3 and 3 more."
    assert others([]) == ""


@pytest.mark.parametrize("key", ["state", *LEDGERS, *MANAGED])
def test_the_verb_ledger_has_the_sum(data: Path, capsys: pytest.CaptureFixture[str], key: str) -> None:
    rows = json.loads(said(data, capsys, "ledger", "--by", key, *FLAGS, "--json"))
    wasted = [
        row["gpu_hours"] if key == "state" else row["wasted_gpu_hours"]
        for row in rows
        if key != "state" or row["state"] in ("allocated-empty", "held-idle")
    ]
    assert sum(wasted) == pytest.approx(world.WASTED)


def _report(client: Client, kind: ReportKind, **who: str) -> dict[str, Any]:
    span = Span(start=world.NOON, end=world.END)
    return plain(make(client, Wanted(kind=kind, span=span, zone=UTC, **who), made_at=world.END))


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ReportKind))
def test_where_a_report_lists_jobs_it_says_what_was_found_of_each(client: Client, kind: ReportKind) -> None:
    who = {ReportKind.MY_WEEK: {"user": "ana"}, ReportKind.PROJECT_WEEK: {"project": "vision"}}
    span = Span(start=world.NOON, end=world.END)
    wanted = Wanted(kind=kind, span=span, zone=UTC, **who.get(kind, {}))
    of_jobs = [each for each in make(client, wanted, made_at=world.END).tables if of_one_job(each)]
    assert all({"verdict", "kinds"} <= {column.key for column in each.columns} for each in of_jobs)
    assert bool(of_jobs) is (kind is not ReportKind.WAITED)
    if kind is ReportKind.CHARGEBACK:
        (wastes,) = of_jobs
        assert sum(row["wasted_gpu_hours"] for row in wastes.rows) == pytest.approx(world.WASTED)
        assert any("Held, idle" in (row["kinds"] or "") for row in wastes.rows)


def of_one_job(table: Table) -> bool:
    return "job" in {column.key for column in table.columns}


def test_who_is_not_known_is_no_person_and_not_nobody(
    client: Client, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {(row["key"], bool(row["held_gpu_hours"])): row for row in client.rows("ledger_by_user", **RANGE)}
    wasted = {who: rows[who, True]["wasted_gpu_hours"] for who in world.BY_USER}
    assert wasted == pytest.approx(world.BY_USER)
    assert (rows[None, False]["gpu_hours"], rows[None, False]["wasted_gpu_hours"]) == (1.5, 0.0)
    shown = said(data, capsys, "ledger", "--by", "user", *FLAGS)
    (unknown,) = (line for line in shown.splitlines() if "(not known)" in line)
    (nobody,) = (line for line in shown.splitlines() if "(nobody)" in line)
    assert " 2.0 " in unknown and " 1.5 " in nobody
    people = client.query("people", **RANGE)
    assert people_page.told_who(named(people, "people"), "people") == "2 people and some unknown"


def test_the_verb_advise_stands_beside_the_sum(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everybody has one idle time: nothing recurs, and the range's waste is said all the same."""
    shown = " ".join(said(data, capsys, "advise", "--recurring", *FLAGS).split())
    assert "7.5 GPU-hours wasted, 30.00 EUR, ended jobs included; nothing that recurs" in shown
    assert json.loads(said(data, capsys, "advise", "--recurring", *FLAGS, "--json")) == []


def piece(
    job: str, hours: float | None, *, past: bool = False, money: float | None = None, horizon_h: float = 4.0
) -> AdviceRow:
    """A row of advice that brings so much; what else it says does not matter here."""
    advice = Advice(
        action=ActionClass.RIGHT_SIZE if past else ActionClass.RECLAIM,
        what="Do it",
        why="It idles.",
        job=JobId(job),
        gain_gpu_hours=hours or 0.0,
        gain_money=money,
        gain_is_known=hours is not None,
        gain_is_past=past,
        horizon_s=horizon_h * 3600,
    )
    return advice_row(advice, "EUR")


def test_a_gain_of_which_nothing_is_known_is_not_added() -> None:
    known, sized, unknown = piece("a", 4.6), piece("b", 2.0), piece("c", None)
    gain = known_gain([known, sized, unknown])
    assert (gain.coming_gpu_hours, gain.past_gpu_hours, gain.unknown) == (pytest.approx(6.6), None, 1)
    assert known_gain([]).coming_gpu_hours is None
    assert told_gain([known, sized, unknown]) == (
        "6.6 GPU-hours within 4 h, if all were followed; of 1 nothing recorded says how much"
    )
    assert told_gain([piece("a", 4.6, money=9.2), unknown]) == (
        "4.6 GPU-hours, 9.20 EUR within 4 h, if all were followed; of 1 nothing recorded says how much"
    )
    assert told_gain([unknown, piece("d", None)]) == "nothing recorded says how much they would give back"


def test_hours_that_are_over_are_not_added_to_coming_ones() -> None:
    """An idle job: 4 GPU-hours of the next 4. One held a GPU for a week and used a seventh: 144 of 168."""
    rows = [piece("idle", 4.0, money=8.0), piece("small", 144.0, past=True, money=288.0, horizon_h=168)]
    gain = known_gain(rows)
    assert (gain.coming_gpu_hours, gain.past_gpu_hours) == (4.0, 144.0)
    assert (gain.coming_money, gain.past_money) == (8.0, 288.0)
    assert told_gain(rows) == (
        "4.0 GPU-hours, 8.00 EUR within 4 h, if all were followed; of what the jobs have held so far smaller "
        "requests would have left 144.0 GPU-hours, 288 EUR"
    )
    assert told_gain(rows[1:]) == (
        "of what the jobs have held so far smaller requests would have left 144.0 GPU-hours, 288 EUR"
    )
    assert advised_part.head_sentence(rows, ()) == (
        "2 pieces of advice, worth 4.0 GPU-hours within 4 h; of what the jobs have held so far smaller "
        "requests would have left 144.0 GPU-hours"
    )


def test_a_past_gain_bears_its_own_words_in_the_verb_and_on_the_page() -> None:
    row = piece("small", 144.0, past=True, horizon_h=168)
    assert advised_part.expected(row) == "144.0 GPU-hours"
    sized = Advice(
        action=ActionClass.RIGHT_SIZE,
        what="Ask for less",
        why="It used little.",
        gain_gpu_hours=144.0,
        gain_is_past=True,
        horizon_s=168 * 3600.0,
    )
    assert "Ask for less · would have left 144.0 GPU-hours of the last 7 d" in drawn(
        draw_advice(sized, "EUR")
    )


def test_an_hour_of_one_job_is_given_back_once() -> None:
    """Paused it gives 4 of its coming hours back, its memory capped 1.5 of the same ones."""
    gain = known_gain([piece("a", 1.5), piece("a", 4.0), piece("b", 1.0)])
    assert (gain.coming_gpu_hours, gain.overlapping) == (5.0, 1)
    assert told_gain([piece("a", 1.5), piece("a", 4.0)]) == (
        "4.0 GPU-hours within 4 h, if all were followed, each job's largest alone"
    )
    assert known_gain([piece("a", 0.0), piece("a", 4.0)]).overlapping == 0


def test_without_every_price_no_worth_is_summed() -> None:
    assert known_gain([piece("a", 4.0, money=8.0), piece("b", 1.0)]).coming_money is None
    assert known_gain([piece("a", 4.0, money=8.0), piece("b", 0.0)]).coming_money == 8.0


def test_a_guess_is_neither_shown_beside_its_advice_nor_in_its_row() -> None:
    """The head's sum and the rows below it have one meaning: what something recorded speaks for."""
    guess = Advice(
        action=ActionClass.RECLAIM,
        what="Tell ann",
        why="It idles.",
        gain_gpu_hours=4.0,
        gain_money=8.0,
        gain_is_known=False,
        horizon_s=14_400.0,
    )
    row = advice_row(guess, "EUR")
    assert (row["gain_gpu_hours"], row["gain_money"], row["currency"]) == (None, None, None)
    assert "Tell ann · gain not known\n" in drawn(draw_advice(guess, "EUR"))
    earned = replace(guess, gain_is_known=True)
    assert "Tell ann · 4.0 GPU-hours, 8.00 EUR within 4 h\n" in drawn(draw_advice(earned, "EUR"))
    gain = known_gain([row, advice_row(earned, "EUR")])
    assert (gain.coming_gpu_hours, gain.unknown) == (4.0, 1)


def test_the_advice_pages_head_sums_the_rows_below_it() -> None:
    row, unknown = piece("a", 4.6), piece("b", None)
    assert advised_part.head_sentence([row], ()) == "1 advice, worth 4.6 GPU-hours within 4 h"
    two = "2 pieces of advice, worth 4.6 GPU-hours within 4 h, of 1 nothing recorded says how much"
    assert advised_part.head_sentence([row, unknown], ()) == two
    alone = advised_part.head_sentence([unknown], ())
    assert alone == "1 advice; nothing recorded says how much it would give back"
    assert "not known" in advised_part.expected(unknown)


def drawn(shown: RenderableType) -> str:
    screen = Console(width=100, record=True, file=StringIO())
    screen.print(shown)
    return screen.export_text()


def test_a_habit_is_told_with_its_hours_and_what_a_limit_gives_back() -> None:
    habit = {"user": "ana", "kind": "interactive", "times": 7, "days": 7, "idle_gpu_hours": 154.0}
    limit = {"limit_s": 14_400.0, "gives_back_gpu_hours": 98.0, "ended_jobs": 0, "ended_gpu_hours": 0.0}
    assert told(habit | limit) == (
        "ana's terminals and notebooks were idle 7 times on 7 days, 154.0 GPU-hours in all; a limit of 4 h "
        "idle would have given back 98.0 of them."
    )
    again = {"gives_back_gpu_hours": 14.0, "ended_jobs": 1, "ended_gpu_hours": 84.0}
    assert told(habit | limit | again).endswith(
        "idle would have given back 14.0 of them, and ended 1 job that worked again later (84.0 more, not "
        "counted)."
    )
    assert told(habit | limit | again | {"gives_back_gpu_hours": 0.0, "ended_jobs": 2}).endswith(
        "idle would have ended 2 jobs that worked again later: what lies past it, 84.0, is no gain."
    )
    assert told(habit | limit | {"kind": None}).startswith("ana's jobs of unknown kind were idle 7 times")
    nobodys = {"user": None, "job": "pod:lab/notebook"}
    assert told(habit | limit | nobodys).startswith("pod:lab/notebook, nobody knows whose, was idle 7 times")
    assert told_to_owner(habit | limit).startswith("Your terminals and notebooks were idle 7 times")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """ana's notebook on one GPU works from 8 to 20 h of three days, and is idle for the 12 h between."""
    folder = tmp_path_factory.mktemp("nights") / "data"
    world.fill_nights(folder, days=3)
    with connect(folder) as opened:
        yield opened


@pytest.mark.slow
def test_a_persons_nights_are_in_the_range_and_in_the_reports(nights: Client) -> None:
    """Three nights of 12 h: 36 wasted and idle; past a limit of 4 h are 8 h of each.

    The notebook works after two of them, and would have been ended by each; the range ends with the third.
    """
    span = {"from_ts": world.NIGHTS, "to_ts": world.NIGHTS + timedelta(days=3)}
    found = recurred(nights, span["from_ts"], span["to_ts"])
    (habit,) = found.habits
    assert found.wasted_gpu_hours == pytest.approx(36.0)
    assert (habit["user"], habit["times"], habit["days"]) == ("ana", 3, 3)
    assert habit["idle_gpu_hours"] == pytest.approx(36.0, abs=0.2)
    assert habit["gives_back_gpu_hours"] == pytest.approx(8.0, abs=0.1)
    assert (habit["ended_jobs"], habit["ended_gpu_hours"]) == (1, pytest.approx(16.0, abs=0.1))
    wanted = Wanted(kind=ReportKind.MY_WEEK, span=Span(start=span["from_ts"], end=span["to_ts"]), user="ana")
    week = make(nights, wanted, made_at=span["to_ts"])
    (change,) = (section for section in week.sections if section.heading == "What to change")
    told_so = "a limit of 4 h idle would have given back 8.0 of them, and ended 1 job that worked again"
    assert any(told_so in each for each in change.sentences)
    cluster = make(nights, Wanted(kind=ReportKind.CLUSTER_WEEK, span=wanted.span), made_at=span["to_ts"])
    (row,) = next(table for table in cluster.tables if table.name == "recurs").rows
    assert (row["user"], row["limit_h"], row["ended_jobs"]) == ("ana", 4.0, 1)


@pytest.mark.parametrize("job", world.BY_JOB)
def test_the_verb_job_has_the_jobs_sum_and_each_gpus(
    data: Path, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    (row,) = json.loads(said(data, capsys, "job", job, *FLAGS, "--json"))
    assert row["wasted_gpu_hours"] == pytest.approx(world.BY_JOB[job])
    assert sum(gpu["wasted_gpu_hours"] for gpu in row["on"]) == pytest.approx(world.BY_JOB[job])
    assert sum(gpu["gpu_hours"] for gpu in row["on"]) == pytest.approx(row["gpu_hours"])


def test_the_verb_job_says_it_in_one_line_with_a_verdict(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ana's: 2 GPUs for 3 h = 6.0; used 0.8 + 0.1 = 0.9, 15%; wasted 4.0, 67%."""
    head, line, verdict, *rest = said(data, capsys, "job", "fit", *FLAGS).splitlines()
    assert head == "slurm:1 fit · ana · vision · batch"
    assert line == (
        "  2 GPUs · 6.0 GPU-hours given, 0.9 used (15%), 4.0 wasted (67%) · most memory on a GPU 30 GiB"
    )
    assert verdict == "  idle for 67% of its time"
    assert "  1.1 kWh, 0.4 of it while idle or empty" in rest
    assert [row.split()[0] for row in rest if row.startswith("n1:")] == ["n1:0", "n1:1"]
    assert main(["job", "nobody's", "--data", str(data)]) == 2
    assert 'no job "nobody\'s" held a GPU' in capsys.readouterr().err


@pytest.mark.slow
def test_reports_have_the_sum(client: Client) -> None:
    week = _report(client, ReportKind.CLUSTER_WEEK)
    assert week["figures"]["wasted_gpu_hours"] == pytest.approx(world.WASTED)
    assert week["figures"]["wasted_cost"] == pytest.approx(world.COST)
    assert week["figures"]["energy_kwh"] == pytest.approx(world.ENERGY_KWH)
    assert week["figures"]["wasted_energy_kwh"] == pytest.approx(world.WASTED_KWH)
    charged = _report(client, ReportKind.CHARGEBACK)
    assert sum(row["energy_kwh"] for row in charged["tables"]["chargeback"]) == pytest.approx(1.875)
    verdicts = {row["job"]: row["verdict"] for row in week["tables"]["wastes"]}
    assert verdicts == {
        "slurm:1": "idle for 67% of its time",
        "slurm:2": "did not compute",
        "pod:x": "idle for 67% of its time",
    }
    ana = _report(client, ReportKind.MY_WEEK, user="ana")
    assert ana["figures"]["wasted_gpu_hours"] == pytest.approx(world.BY_USER["ana"])
    vision = _report(client, ReportKind.PROJECT_WEEK, project="vision")
    assert vision["figures"]["wasted_gpu_hours"] == pytest.approx(world.BY_USER["ana"])


def test_pages_have_the_sum(client: Client) -> None:
    window = Window(
        from_ts=pd.Timestamp(world.NOON.replace(tzinfo=None)),
        to_ts=pd.Timestamp(world.END.replace(tzinfo=None)),
        step_s=3600,
    )
    usage = client.query("usage_over_time", **RANGE, step_s=3600)
    usage = usage.assign(ts=usage["ts"].dt.tz_localize("UTC"))
    head = headline(usage, client.query("ledger_by_state", **RANGE), window)
    assert (head.wasted_gpu_hours, head.wasted_cost) == pytest.approx((world.WASTED, world.COST))
    assert (head.energy.kwh, head.wasted_energy.kwh) == pytest.approx((world.ENERGY_KWH, world.WASTED_KWH))
    assert (head.energy.partly_of, head.wasted_energy.partly_of) == (None, None)
    waste = client.query("waste", **RANGE)
    found = client.query("findings", **RANGE, open=True)
    told = range_waste.sentence(len(messages(found)), waste, open_only=True)
    assert text.gpu_hours(world.WASTED) in told and text.gpu_hours(world.OPEN) in told


def test_who_held_a_gpu_when_its_records_begin_held_it_since_then_or_earlier(
    client: Client, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = {row["job"]: row["from_is_bound"] for row in client.rows("jobs", **RANGE)}
    assert all(jobs.values()) and jobs, "all of them begin with the records"
    for row in client.rows("job_gpus", job="slurm:1", **RANGE):
        assert row["from_is_bound"] is True
    assert [row["from_is_bound"] for row in client.rows("gpu_holders", uuid="GPU-0", **RANGE)] == [True]
    assert " or earlier to " in said(data, capsys, "job", "slurm:1", *FLAGS)
    assert [row["job"] for row in client.rows("jobs", job="slurm:2", **RANGE)] == ["slurm:2"]
    assert began_earlier(pd.DataFrame([{"job": "x", "from_is_bound": None}, {"job": "y"}])) == [False, False]


def test_a_hold_that_began_while_its_gpu_was_recorded_began_then(late: Client) -> None:
    span = {"from_ts": world.NOON, "to_ts": world.END}
    assert {row["job"]: row["from_is_bound"] for row in late.rows("jobs", **span)} == {"slurm:2": False}


def test_a_state_lasted_until_its_newest_measurement_and_not_until_now(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The world was measured for three hours, which were long ago."""
    rows = [line.split() for line in said(data, capsys, "status").splitlines() if line.startswith("n1:")]
    assert [row[2:4] for row in rows] == [["2", "h"], ["2", "h"], ["93", "min"], ["63", "min"]]
