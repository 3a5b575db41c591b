"""``fallow consent`` on a real service, as the user that the kernel sees; and ages in a hurried calendar."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.cli.asking import SIMULATED
from service.client.jobs import ActingClient, connect_acting
from tests.service.conftest import Running, fallow, is_well, start, until

pytestmark = pytest.mark.process

HURRY = """
[collect]
tick_s = 300
[simulated]
nodes = 1
gpus_per_node = 2
backfill_days = 0
[rehearsal]
speed = 300
since_ms = {since_ms}
"""
WANTED = {"command": ["sleep", "1"], "project": "vision", "min_gpus": 512, "max_gpus": 512}


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("hurried") / "data"
    made = start(data, config=HURRY.format(since_ms=time.time_ns() // 1_000_000))
    try:
        until("the service is well", lambda: is_well(made))
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def client(hurried: Running) -> ActingClient:
    return connect_acting(hurried.data)


@pytest.fixture(scope="module")
def job(client: ActingClient) -> str:
    return str(client.submit({**WANTED, "name": "waits", "mobility": "elastic", "preemptible": True}).job)


def rows(hurried: Running, *words: str) -> list[dict[str, Any]]:
    done = fallow(*words, "--json", data=hurried.data)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def allowed(hurried: Running, job: str) -> dict[str, bool]:
    return {row["kind"]: row["allowed"] for row in rows(hurried, "consent", "--job", job)}


def test_what_holds_is_shown_allowed_and_withdrawn(hurried: Running, job: str) -> None:
    assert allowed(hurried, job)["pause"]
    number = job.removeprefix("fallow:")
    done = fallow("consent", "--withdraw", "pause,restart", "--job", number, "--for", "7d", data=hurried.data)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.removeprefix(f"{SIMULATED}\n").startswith(
        f"Withdrawn: pause, restart with {job}, until "
    )
    assert not any(allowed(hurried, job)[kind] for kind in ("pause", "restart"))
    shown = fallow("consent", data=hurried.data).stdout
    assert job in shown and "by its owner" in " ".join(shown.split())
    assert fallow("consent", "--forget", "--job", number, data=hurried.data).returncode == 0
    assert allowed(hurried, job)["pause"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--allow", "pause"), "--job JOB, or --all"),
        (("--allow", "pauze", "--all"), "'pauze' is nothing that can be allowed"),
        (("--allow", "pause", "--withdraw", "pause", "--all"), "name each kind once"),
        (("--all",), "go with --allow"),
        (("--allow", "pause", "--job", "999"), "no job fallow:999"),
    ],
)
def test_what_says_nothing_is_refused_in_a_sentence(
    hurried: Running, words: tuple[str, ...], said: str
) -> None:
    done = fallow("consent", *words, data=hurried.data)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_ages_are_those_of_the_services_calendar(hurried: Running, client: ActingClient, job: str) -> None:
    (row,) = rows(hurried, "queue")
    until("ten minutes have passed there", lambda: client.now_ms() - row["since_ms"] > 600_000)
    for verb in ("queue", "jobs"):
        shown = fallow(verb, data=hurried.data).stdout
        assert " min" in shown or " h" in shown, shown


def test_data_folder_needs_no_service_to_say_that_none_answers(tmp_path: Path) -> None:
    done = fallow("consent", data=tmp_path)
    assert done.returncode == 2 and "no service answers" in done.stderr
