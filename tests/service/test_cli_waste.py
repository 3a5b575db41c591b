"""``fallow waste``: the ledger's one sum by user, project and job, with why, who was told, and what to do."""

import csv
import json
from argparse import Namespace
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path

import duckdb
import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from analytics.vocabulary.findings import FindingKind
from service.cli import main
from service.cli.screen import Column, print_csv, table
from service.cli.waste import draw
from service.client import Client, connect
from service.usecases.wasted import wasted
from tests.service import one_sum_world as world

FLAGS = ["--since", "2026-11-01T12:00", "--until", "2026-11-01T15:00"]
SPAN = (world.NOON, world.END)
TOLD_AT = "2026-11-01 13:30:00"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = world.fill(tmp_path_factory.mktemp("waste") / "data")
    told(folder / "fallow.duckdb")
    return folder


def told(store: Path) -> None:
    """A case about ana's job of which one message arrived, and a later one did not."""
    case = {
        **dict.fromkeys(("key", "kind", "rung", "title", "says", "next", "command", "gpus", "because"), "x"),
        **{"number": 1, "level": 2, "told_level": 2, "evidence": "{}"},
        **{"job": "slurm:1", "user_name": "ana", "project": "vision"},
        **dict.fromkeys(("since_at", "opened_at", "changed_at"), "2026-11-01 13:20:00"),
    }
    message = {
        **{"alert": 1, "receiver": "user:ana", "gathered": False},
        **dict.fromkeys(("kind", "turn", "title", "body"), "x"),
        **dict.fromkeys(("opened_at", "made_at", "due_at"), "2026-11-01 13:20:00"),
    }
    arrived = {"number": 1, "outcome": "sent", "settled_at": TOLD_AT}
    missed = {"number": 2, "outcome": "given-up", "settled_at": "2026-11-01 14:00:00"}
    with duckdb.connect(str(store)) as opened:
        for name, row in (
            ("alert_cases", case),
            ("alert_letters", message | arrived),
            ("alert_letters", message | missed),
        ):
            marks = ", ".join("?" * len(row))
            opened.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[Client]:
    with connect(data) as opened:
        yield opened


def said(data: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["waste", *FLAGS, *words, "--data", str(data)]) == 0
    return capsys.readouterr().out


def drawn(shown: RenderableType, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(shown)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("by", "hours"),
    [("user", world.BY_USER), ("job", world.BY_JOB), ("project", {"vision": 4, "lm": 1.5, None: 2})],
)
def test_rows_have_the_ledgers_hours_and_money_and_add_up_to_its_sum(
    data: Path, capsys: pytest.CaptureFixture[str], by: str, hours: dict[str | None, float]
) -> None:
    rows = json.loads(said(data, capsys, "--by", by, "--json"))
    assert {row[by]: row["wasted_gpu_hours"] for row in rows} == pytest.approx(hours)
    assert sum(row["share_ratio"] for row in rows) == pytest.approx(1)
    assert sum(row["wasted_cost"] for row in rows) == pytest.approx(world.COST)
    assert [row["wasted_gpu_hours"] for row in rows] == sorted(hours.values(), reverse=True)


def test_a_row_says_why_which_job_when_told_and_what_to_do(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ana, unknown, bo = json.loads(said(data, capsys, "--json"))
    assert (ana["user"], unknown["user"], bo["user"]) == ("ana", None, "bo")
    assert ana["kinds"] == [FindingKind.USES_PART, FindingKind.HELD_IDLE]
    assert (ana["worst_job"], ana["jobs"], ana["running_jobs"]) == ("slurm:1", 1, 1)
    assert ana["told_at"].startswith(TOLD_AT.replace(" ", "T")) and ana["told"] == "user:ana"
    assert unknown["told_at"] is None, "a message of which nobody is the subject is about nobody"
    assert "ask for as many GPUs as it uses" in ana["remedy"]
    assert unknown["kinds"] == [], "nothing was found, and no kind is said"
    assert (bo["running_jobs"], bo["kinds"]) == (0, [FindingKind.ALLOCATED_EMPTY])
    assert bo["remedy"].startswith("over: see `fallow job slurm:2`")


def test_the_head_is_the_sum_and_its_part_of_what_was_held(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = said(data, capsys).splitlines()[0]
    assert head.endswith("7.5 GPU-hours wasted, 30.00 EUR, 71% of what was given out")


@pytest.mark.slow
def test_where_no_user_is_known_of_most_it_is_told_by_job(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_hour = ["--until", "2026-11-01T13:00"]
    shown = said(data, capsys, *first_hour).splitlines()
    assert "no user is known" in shown[1] and shown[2].startswith("job ")
    assert said(data, capsys, *first_hour, "--by", "user").splitlines()[1].startswith("user ")
    assert {"user"} <= set(json.loads(said(data, capsys, *first_hour, "--json"))[0]), "JSON keeps its keys"


@pytest.mark.parametrize("by", ["user", "project", "job"])
def test_no_key_title_or_number_is_cut_at_any_width(client: Client, by: str) -> None:
    rows = wasted(client, by, SPAN, {})
    now = world.END + timedelta(hours=1)
    for width in (60, 80, 100, 120, 400):
        lines = drawn(draw(rows, by, now, width), width)
        assert not [line for line in lines if "…" in line or cell_len(line) > width], (width, lines)
        shown = " ".join(lines)
        for part in (
            "GPU-hours",
            "share",
            "cost",
            "last told",
            "16.00 EUR",
            "2 h ago",
            "Held, empty",
            "`fallow job",
        ):
            assert part in shown, (width, part)
        for row in rows:
            assert (row.key or "(not known)") in shown


def test_a_table_that_finds_no_room_at_all_becomes_lines() -> None:
    long = "pod:" + "n" * 70
    columns = [Column(title="job"), Column(title="GPU-hours", right=True), Column(title="why", below=True)]
    lines = drawn(table(columns, [[long, "1,234", "idle"]], width=80), 80)
    assert [line.strip() for line in lines] == [long, "GPU-hours 1,234", "why: idle"]


def test_a_column_that_gives_way_keeps_its_title() -> None:
    columns = [Column(title="a long title", least=3), Column(title="key")]
    lines = drawn(table(columns, [["x" * 40, "k" * 10]], width=30), 30)
    assert lines[0].startswith("a long title") and "k" * 10 in lines[2]


@pytest.mark.slow
def test_of_many_the_largest_are_shown_and_the_rest_summed(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cli.waste.SHOWN", 1)
    shown = said(data, capsys)
    assert "and 2 more with 3.5 GPU-hours together; --all lists them" in shown
    assert "more with" not in said(data, capsys, "--all")


@pytest.mark.slow
def test_nothing_wasted_and_nothing_held_are_told_apart(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ["--since", "2026-10-01", "--until", "2026-10-02"]
    assert "Nobody is known to have held" in said(data, capsys, *before)
    worked = ["--until", "2026-11-01T13:00", "--user", "ana"]
    assert "Whoever held a GPU worked on it." in said(data, capsys, *worked)


def test_csv_has_every_row_with_whole_numbers_and_times_of_utc(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cli.waste.SHOWN", 1)
    ana, unknown, bo = csv.DictReader(StringIO(said(data, capsys, "--csv")))
    assert (ana["user"], unknown["user"], bo["user"]) == ("ana", "", "bo")
    assert [float(row["wasted_gpu_hours"]) for row in (ana, unknown, bo)] == [4.0, 2.0, 1.5]
    assert float(ana["share_ratio"]) == 4 / 7.5  # 0.53333… and not 53%
    assert (float(bo["wasted_cost"]), bo["currency"]) == (6.0, "EUR")
    assert {(row["from_ts"], row["to_ts"]) for row in (ana, unknown, bo)} == {
        ("2026-11-01T12:00:00Z", "2026-11-01T15:00:00Z")
    }
    assert ana["told_at"] == "2026-11-01T13:30:00Z" and unknown["told_at"] == ""
    assert ana["kinds"] == "uses-part; held-idle"


def test_csv_of_nothing_has_its_columns_and_no_sentence(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ["--since", "2026-10-01", "--until", "2026-10-02"]
    (head,) = said(data, capsys, "--csv", "--by", "job", *before).splitlines()
    assert head.split(",")[:2] == ["job", "wasted_gpu_hours"]


def test_csv_runs_in_no_spreadsheet_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(("user", "job"), [{"user": '=HYPERLINK("http://x")', "job": "a\x1b[2J,b\nc"}], Namespace())
    told = capsys.readouterr().out
    assert told.splitlines()[1].startswith("\"'=HYPERLINK") and "\x1b" not in told
    (row,) = csv.DictReader(StringIO(told))
    assert row["job"] == "a\\x1b[2J,b\\nc"


def test_csv_and_json_are_not_asked_for_together(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["waste", "--csv", "--json", "--data", str(data)]) == 2


def test_what_was_found_in_the_minute_in_which_the_range_ends_is_in_it(client: Client) -> None:
    asked: dict[str, object] = {}

    class Noted:
        def rows(self, name: str, **params: object) -> object:
            asked[name] = params.get("to_ts")
            return client.rows(name, **params)

        rows_if_kept = rows

    wasted(Noted(), "job", SPAN, {})  # type: ignore[arg-type]
    assert asked["findings"] == asked["alerts"] == SPAN[1] + timedelta(minutes=1)
    assert asked["jobs"] == asked["ledger_by_job"] == SPAN[1], "hours are the range's alone"
