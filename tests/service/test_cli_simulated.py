"""Every verb on simulated data says that it is invented: in the first line of its text, or in rows of JSON.

The verbs are those of the command line itself: who adds one says here how it is called, or why it
has no need.
"""

import argparse
import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from service.cli.asking import MARK, SIMULATED
from service.cli.parser import make_parser
from service.client import running
from tests.service.conftest import Running, is_well, start, until, verb

pytestmark = pytest.mark.process

ASKED = {
    "status": "",
    "collect": "--once --source simulated",
    "ledger": "--since 2h",
    "waste": "--since 6h --by project",
    "findings": "--all",
    "findings --unknown": "",
    "findings --intruders": "",
    "findings --patterns": "",
    "alerts": "--all",
    "advise": "--all",
    "plan": "",
    "plan --waiting": "",
    "explain": "{gpu}",
    "whatif": "--since 6h",
    "whatif --charging": "--since 6h",
    "simulate": "--from-store --since 6h --nodes 2x2",
    "report": "cluster-week --out {out}/report.html",
    "report --preview": "cluster-week",
    "export": "--out {out}",
    "job": "{held}",
    "jobs": "--all",
    "jobs JOB": "{job}",
    "queue": "",
    "consent": "",
    "actions": "",
    "apply": "7",
    "reject": "7 --because no",
    "undo": "7",
    "run": "--gpus 1000 true",
    "pause": "{job}",
    "resume": "{job}",
    "resize": "{job} 1",
    "keep": "{job}",
    "cancel": "{job}",
}
"""How each is called; what stands after a verb's own name tells its ways apart."""

SHOWS_NO_DATA = {
    "init": "ends with the table of `waste`, which says it",
    "up": "starts a service, and says at its start that it is simulated (test_cli_up)",
    "serve": "the service itself; it shows nothing",
    "doctor": "looks at the machine; its line about the source is called `simulated`",
    "config": "shows the configuration",
    "node": "pushes to a head, which refuses what is invented; it shows nothing",
    "import": "real data only, which a simulated store refuses",
    "completion": "a script for a shell",
    "service": "systemd's units",
    "token": "who may ask",
    "store": "whether its files can be read, not what they hold; a service has to be stopped for it",
    "tell": "asks through the same door, of findings alone, which these GPUs need not have",
    "mcp": "answers with the rows of the other verbs (test_cli_mcp)",
    "burst": "profiles and plans of somebody's own model, from files; nothing of the machine",
    "logs": "what somebody's own job has printed, byte for byte",
    "stop-acting": "the kill switch: it waits for nothing",
    "start-acting": "the same",
}


def verbs() -> Iterator[str]:
    """The verbs that can be typed."""
    for action in make_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices


def in_json() -> list[str]:
    """Those that speak JSON."""
    choices = next(a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
    able = {name for name, made in choices.items() if "--json" in made._option_string_actions}
    return [way for way in ASKED if way.split()[0] in able - {"report"}]


@pytest.fixture(scope="module")
def job(service: Running) -> str:
    """A job that waits: nothing is started on simulated GPUs."""
    from service.client.jobs import connect_acting

    entry = connect_acting(service.data).submit(
        {"command": ["true"], "project": "physics", "nonce": "0" * 32}
    )
    return entry.job


def test_every_verb_is_called_here_or_says_why_not() -> None:
    known = {way.split()[0] for way in ASKED}
    assert set(verbs()) == known | set(SHOWS_NO_DATA)
    assert not known & set(SHOWS_NO_DATA)


@pytest.mark.parametrize("way", ASKED)
def test_text_says_once_and_first_that_it_is_invented(
    service: Running, job: str, tmp_path: Path, way: str
) -> None:
    done = verb(*words(way, service, job, tmp_path), data=service.data)
    said = [line for line in (*done.stderr.splitlines(), *done.stdout.splitlines()) if SIMULATED in line]
    assert said == [SIMULATED], done
    first = done.stderr if SIMULATED in done.stderr else done.stdout
    assert first.splitlines()[0] == SIMULATED


@pytest.mark.parametrize("way", in_json())
def test_rows_in_json_say_each_that_they_are_invented(
    service: Running, job: str, tmp_path: Path, way: str
) -> None:
    done = verb(*words(way, service, job, tmp_path), "--json", data=service.data)
    assert SIMULATED not in done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert [row[MARK] for row in rows] == [True] * len(rows)


def words(way: str, service: Running, job: str, out: Path) -> list[str]:
    name, *more = way.split()
    with service.client() as client:
        gpu = str(client.rows("gpus_now")[0]["uuid"])
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        held = str(client.rows("jobs", from_ts=now - timedelta(hours=20), to_ts=now)[0]["job"])
    typed = ASKED[way].format(out=out, job=job, gpu=gpu, held=held).split()
    return [name, *(each for each in more if each.startswith("-")), *typed]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_exported_files_bear_it_in_a_column(service: Running, tmp_path: Path, kind: str) -> None:
    verb("export", "--format", kind, "--out", str(tmp_path), "--since", "2h", data=service.data)
    files = sorted(tmp_path.glob(f"*.{kind}"))
    assert [each.stem for each in files] == ["allocations", "gpus", "samples"]
    for each in files:
        if kind == "parquet":
            assert set(pq.read_table(each)["simulated"].to_pylist()) == {True}
        else:
            with each.open(newline="") as text:
                assert {row["simulated"] for row in csv.DictReader(text)} == {"true"}


def test_answers_of_the_api_have_a_header_and_arrow_tables_a_mark(service: Running) -> None:
    until("no tick is late", lambda: is_well(service))  # the verbs before this one have kept the machine busy
    for path in ("/v1/query/gpus_now", "/v1/jobs", "/healthz", "/metrics", "/v1/queries"):
        status, headers, _ = service.get(path, **service.bearer())
        assert (status, headers["fallow-simulated"]) == (200, "true"), path
    with service.client() as client:
        assert client.query_arrow("gpus_now").schema.metadata[b"fallow_simulated"] == b"true"


def test_a_recording_of_a_simulated_cluster_stays_one_wherever_it_is_replayed(
    service: Running, tmp_path: Path
) -> None:
    verb("export", "--out", str(tmp_path / "week"), "--since", "20m", data=service.data)
    replayed = start(tmp_path / "data", words=("--source", f"replay={tmp_path / 'week'}"), config="")
    try:
        until("the recording is over", lambda: is_rested(replayed))
        assert verb("ledger", "--since", "1d", data=replayed.data).stdout.startswith(f"{SIMULATED}\n")
    finally:
        replayed.stop()
    done = verb("status", data=replayed.data)
    assert done.stdout.startswith(f"{SIMULATED}\n"), "read from the file, without a service"
    rows = json.loads(verb("status", "--json", data=replayed.data).stdout)
    assert [row[MARK] for row in rows] == [True] * 4


def is_rested(service: Running) -> bool:
    assert service.process.poll() is None, service.process.communicate()
    if running(service.data) is None:
        return False
    said = json.loads(service.get("/healthz")[2])
    return said["simulated"] and "has ended" in str(said["reason"])
