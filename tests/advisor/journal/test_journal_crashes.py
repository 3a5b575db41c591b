"""kill -9 of the service wherever it reaches the disk: no job lost, none started twice, no lease leaked.

The launchers go on meanwhile, as they do. After each kill a new service starts on the same store, and what it
says must agree with what the launchers did: their own logs are the witness. With FALLOW_CRASH_LINES=all it is
killed at every line that has to do with the store, which takes minutes.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

pytestmark = pytest.mark.long

DRIVERS = 2
BY_DIRECTIVE = ("start", "resume", "resize", "pause", "requeue", "move", "release-memory", "cancel")


class Driver:
    """The program that forks services to be killed, and is their launchers."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.advisor.journal.crash_acting"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    def run(self, folder: Path, scenario: str, point: int = 0) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{folder} {scenario} {point}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=30)


@pytest.fixture(scope="module")
def drivers() -> Iterator["SimpleQueue[Driver]"]:
    idle: SimpleQueue[Driver] = SimpleQueue()
    started = [Driver() for _ in range(DRIVERS)]
    for each in started:
        idle.put(each)
    yield idle
    for each in started:
        each.close()


def test_killed_at_every_point_of_acting(drivers: "SimpleQueue[Driver]", tmp_path: Path) -> None:
    base = made(drivers, tmp_path)
    whole = copied(base, tmp_path / "whole")
    driver = drivers.get()
    passed = driver.run(whole, "act")["passed"]
    drivers.put(driver)
    assert passed > 20

    def at(point: int) -> tuple[bool, set[str]]:
        return killed(drivers, base, tmp_path / f"killed-{point}", [("act", point)])

    with ThreadPoolExecutor(DRIVERS) as hands:
        found = list(hands.map(at, range(1, passed + 1)))
    assert sum(was_killed for was_killed, _ in found) >= passed - 3, "threads take turns, a little"
    results = set().union(*(results for _, results in found))
    assert {"done", "undone"} <= results


def test_killed_at_every_point_of_starting_again(drivers: "SimpleQueue[Driver]", tmp_path: Path) -> None:
    base = made(drivers, tmp_path)
    whole = copied(base, tmp_path / "whole")
    driver = drivers.get()
    acting = driver.run(whole, "act")["passed"]
    drivers.put(driver)

    def at(point: tuple[int, int]) -> tuple[bool, set[str]]:
        first, second = point
        steps = [("act", first), ("recover", second)]
        return killed(drivers, base, tmp_path / f"killed-{first}-{second}", steps)

    points = [(acting // 2, second) for second in range(1, 11)]
    with ThreadPoolExecutor(DRIVERS) as hands:
        found = list(hands.map(at, points))
    assert sum(was_killed for was_killed, _ in found) > 3


def made(drivers: "SimpleQueue[Driver]", folder: Path) -> Path:
    """A service's folder with two running jobs."""
    base = folder / "base"
    base.mkdir()
    driver = drivers.get()
    assert driver.run(base, "prepare")["status"] == 0
    drivers.put(driver)
    agree(json.loads((base / "facts.json").read_text()), launchers_of(base), jobs=2)
    return base


def copied(base: Path, to: Path) -> Path:
    return Path(shutil.copytree(base, to))


def launchers_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "launchers.json").read_text())
    return found


def killed(
    drivers: "SimpleQueue[Driver]", base: Path, folder: Path, kills: list[tuple[str, int]]
) -> tuple[bool, set[str]]:
    """Kill services on a copy of ``base`` at these points, start a last one, and check all it says."""
    copied(base, folder)
    driver = drivers.get()
    try:
        statuses = [driver.run(folder, scenario, point)["status"] for scenario, point in kills]
        assert driver.run(folder, "recover")["status"] == 0, kills
    finally:
        drivers.put(driver)
    facts = json.loads((folder / "facts.json").read_text())
    agree(facts, launchers_of(folder), jobs=3, what=str(kills))
    shutil.rmtree(folder)
    was_killed = os.WIFSIGNALED(statuses[-1]) and os.WTERMSIG(statuses[-1]) == signal.SIGKILL
    return was_killed, {result for _, _, _, result in facts["deeds"]}


def agree(facts: dict[str, Any], launchers: dict[str, Any], jobs: int, what: str = "") -> None:
    """The store says what the launchers did: every job, every device, every deed."""
    entries, deeds = facts["entries"], facts["deeds"]
    assert len(entries) == jobs, f"{what}: a job is lost, or was taken twice: {sorted(entries)}"
    assert facts["in_flight"] == [], what
    done = {number for number, _, _, result in deeds if result == "done"}
    logged: set[int] = set()
    for job, entry in entries.items():
        launcher = launchers.get(job, {"state": "pending", "gpus": [], "handled": 0, "log": [], "wrong": []})
        assert launcher["wrong"] == [], f"{what}: {job} was told {launcher['wrong']}"
        stands = ("state", "gpus") if entry["state"] == "ended" else ("state", "gpus", "handled")
        for name in stands:
            assert entry[name] == launcher[name], f"{what}: {name} of {job}"
        numbers = [number for number, _ in launcher["log"]]
        assert numbers == sorted(set(numbers)), f"{what}: {job} carried something out twice: {numbers}"
        logged |= set(numbers)
    held = sorted([job, gpu, 1.0] for job, entry in entries.items() for gpu in entry["gpus"])
    assert sorted(facts["leases"]) == held, f"{what}: leases and holders differ"
    assert len({gpu for _, gpu, _ in held}) == len(held), f"{what}: a GPU has two holders"
    for number, job, verb, result in deeds:
        assert result in ("done", "undone", "stale"), f"{what}: {verb} of {job} is {result}"
        if verb in BY_DIRECTIVE:
            assert (number in logged) == (result == "done"), f"{what}: {verb} of {job} is {result}"
    assert logged <= done, f"{what}: done and not in the journal: {logged - done}"
    for job in {job for _, job, verb, result in deeds if (verb, result) == ("set-env-at-restart", "done")}:
        assert entries[job]["capped"], f"{what}: the settings of {job} are lost"
