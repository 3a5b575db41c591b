"""The hand does not believe the service: it looks itself, bounds what it does, and keeps its own journal."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from advisor.engines.cuda_checkpoint import Deed, Host, Target
from advisor.engines.cuda_checkpointer import NOT_SAID, Begun, Over
from advisor.engines.gpu_room import ProcessMemory
from advisor.engines.notify_owner import Notice, Told
from advisor.jobs.external_jobs import Seen
from advisor.serialize import to_tree
from collector.model import GpuUuid, NodeName
from collector.procfs.checkpoint_blockers import CheckpointBlocker
from service.privileged.hand import (
    MESSAGES_AN_HOUR,
    MOST_PROCESSES,
    NEVER_PAUSED,
    PAUSES_AN_HOUR,
    PROCESSES_AN_HOUR,
    Hand,
)
from service.privileged.journal import open_journal
from service.privileged.wire import Refused

SERVICE = 991
BEGUN_MS = 1_000_000
GPU = GpuUuid("GPU-a")


class StandIn:
    """A checkpointer that does what it is told, or fails; what it did is in ``done``."""

    def __init__(self, deed: Deed | None = None) -> None:
        self.deed = deed or Deed(ok=True, found="paused")
        self.done: list[tuple[str, tuple[int, ...]]] = []
        self.held: ProcessMemory = {}
        self.locks: list[int] = []
        self.begun_ms: Begun = NOT_SAID
        self.looked: Begun = NOT_SAID

    def host(self) -> Host:
        return Host(architecture="x86_64", driver_major=None, uid=0, available_bytes=1)

    def targets(self, seen: Sequence[Seen]) -> tuple[Target, ...]:
        return tuple(Target(pid=each.pid, memory_bytes=each.memory_bytes) for each in seen)

    def pause(self, pids: Sequence[int], held: ProcessMemory, begun_ms: Begun = NOT_SAID) -> Over:
        self.begun_ms = begun_ms
        self.done.append(("pause", tuple(pids)))
        return Over(self.deed)

    def resume(
        self, pids: Sequence[int], held: ProcessMemory, locks: Sequence[int] = (), begun_ms: Begun = NOT_SAID
    ) -> Over:
        self.begun_ms = begun_ms
        self.locks = [os.dup(each) for each in locks]
        self.held = held
        self.done.append(("resume", tuple(pids)))
        return Over(self.deed)

    def look(self, pids: Sequence[int], begun_ms: Begun = NOT_SAID) -> Deed:
        self.looked = dict(begun_ms)
        return Deed(ok=True, found="looked", states={str(pid): "checkpointed" for pid in pids})


class Ear:
    """A notifier that reaches everybody."""

    def __init__(self) -> None:
        self.heard: list[Notice] = []

    def notify(self, notice: Notice) -> Told:
        self.heard.append(notice)
        return Told(reached=("terminal pts/1",))


class World:
    """A hand over a folder; ``now_s`` is its clock, ``processes`` who runs: pid to (start, uid)."""

    def __init__(self, folder: Path, deed: Deed | None = None) -> None:
        self.folder, self.checkpointer, self.ear, self.now_s = folder, StandIn(deed), Ear(), 0.0
        self.processes: dict[int, tuple[int, int | None]] = {50: (BEGUN_MS, 1000)}
        self.stop = folder / "stop-acting"
        self.measured: dict[int, dict[GpuUuid, int]] = {}
        self.again()

    def again(self) -> None:
        """Start it anew on what is on disk."""
        self.hand = Hand(
            self.checkpointer,
            self.ear,
            open_journal(self.folder / "journal.jsonl"),
            (self.stop,),
            look=self._look,
            measure=lambda pids: {pid: self.measured.get(pid, {GPU: 7}) for pid in pids},
            now_s=lambda: self.now_s,
        )

    def ask(self, verb: str, **fields: Any) -> Any:
        return self.hand.handle({"verb": verb, **fields}, SERVICE)

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "journal.jsonl").read_text().splitlines()]

    def _look(self, pid: int) -> CheckpointBlocker | None:
        found = self.processes.get(pid)
        return None if found is None else CheckpointBlocker(pid=pid, started_ms=found[0], uid=found[1])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


MEANT = [[50, BEGUN_MS]]


def test_a_pause_is_in_the_journal_before_and_after(world: World) -> None:
    assert world.ask("pause", processes=MEANT)["deed"]["ok"] is True
    begun, ended = world.rows()
    assert (begun["verb"], begun["processes"], begun["by"]) == ("pause", MEANT, SERVICE)
    assert (ended["n"], ended["ok"]) == (begun["n"], True)
    assert world.ask("resume", processes=MEANT)["deed"]["ok"] is True
    assert [verb for verb, _ in world.checkpointer.done] == ["pause", "resume"]
    assert world.checkpointer.begun_ms == {50: BEGUN_MS}, "it acts on the process that it looked at"


@pytest.mark.parametrize(
    ("process", "found", "why"),
    [
        ([51, BEGUN_MS], None, "gone"),
        ([50, BEGUN_MS + 60_000], (BEGUN_MS, 1000), "another one by now"),
        ([50, BEGUN_MS], (BEGUN_MS, 0), "root's"),
        ([50, BEGUN_MS], (BEGUN_MS, None), "nobody knows whose"),
    ],
)
def test_a_process_that_was_not_meant_is_left_alone(
    world: World, process: list[int], found: tuple[int, int | None] | None, why: str
) -> None:
    world.processes = {} if found is None else {50: found}
    with pytest.raises(Refused, match=why):
        world.ask("pause", processes=[process])
    assert world.checkpointer.done == [] and world.rows() == []


def test_a_stop_file_stops_pauses_and_leaves_the_way_back_open(world: World) -> None:
    world.ask("pause", processes=MEANT)
    world.stop.touch()
    with pytest.raises(Refused, match="acting is stopped"):
        world.ask("pause", processes=MEANT)
    assert world.ask("resume", processes=MEANT)["deed"]["ok"] is True


def test_only_what_it_paused_itself_is_resumed_also_after_a_restart(world: World) -> None:
    with pytest.raises(Refused, match="was not paused by fallow-hand"):
        world.ask("resume", processes=MEANT)
    world.ask("pause", processes=MEANT)
    world.again()
    world.ask("resume", processes=MEANT)
    world.again()
    with pytest.raises(Refused, match="was not paused by fallow-hand"):
        world.ask("resume", processes=MEANT)


def test_room_is_made_sure_of_for_what_it_measured_itself_whatever_it_is_told(world: World) -> None:
    world.measured = {50: {GPU: 40 << 30}}
    world.ask("pause", processes=MEANT, held={"50": {"GPU-a": 1}})
    world.measured = {}
    world.again()
    world.ask("resume", processes=MEANT, held={"50": {"GPU-b": 1}})
    assert world.checkpointer.held == {50: {GPU: 40 << 30}}


def test_of_a_pause_by_an_older_version_it_has_the_services_word_alone(world: World) -> None:
    world.ask("pause", processes=MEANT)
    journal = world.folder / "journal.jsonl"
    rows = [{key: row[key] for key in row if key != "held"} for row in world.rows()]
    journal.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    world.again()
    world.ask("resume", processes=MEANT, held={"50": {"GPU-a": 7}})
    assert world.checkpointer.held == {50: {GPU: 7}}


def test_what_it_cannot_measure_it_does_not_pause(world: World) -> None:
    world.measured = {50: {}}
    with pytest.raises(Refused, match="does not say what process 50 holds"):
        world.ask("pause", processes=MEANT, held={"50": {"GPU-a": 7}})
    assert world.checkpointer.done == [] and world.rows() == []


@pytest.mark.parametrize("held", [{"50": {"--help": 7}}, {"50": {"GPU a": 7}}, {"50": {"GPU-a": -1}}])
def test_what_is_no_size_by_uuid_is_refused(world: World, held: dict[str, dict[str, int]]) -> None:
    with pytest.raises(Refused, match="by the UUID of a GPU"):
        world.ask("pause", processes=MEANT, held=held)
    assert world.checkpointer.done == []


def test_a_pause_that_was_cut_off_counts_as_one(world: World) -> None:
    world.ask("pause", processes=MEANT)
    journal = world.folder / "journal.jsonl"
    begun = journal.read_text().splitlines()[0]
    journal.write_text(f'{begun}\n{{"n": 1, "at_')  # killed amid the line that says what came of it
    world.again()
    assert world.ask("resume", processes=MEANT)["deed"]["ok"] is True
    numbers = [json.loads(line)["n"] for line in journal.read_text().splitlines() if line.endswith("}")]
    assert numbers == [1, 2, 2]


def test_a_pause_that_was_undone_leaves_nothing_to_resume(tmp_path: Path) -> None:
    world = World(tmp_path, Deed(ok=False, found="lock timed out", undone=True))
    assert world.ask("pause", processes=MEANT)["deed"]["ok"] is False
    with pytest.raises(Refused):
        world.ask("resume", processes=MEANT)


def test_pauses_within_an_hour_have_a_bound(world: World) -> None:
    for _ in range(PAUSES_AN_HOUR):
        world.ask("pause", processes=MEANT)
    with pytest.raises(Refused, match="within the hour"):
        world.ask("pause", processes=MEANT)
    world.now_s = 3601.0
    assert world.ask("pause", processes=MEANT)["deed"]["ok"] is True


def test_many_processes_are_not_one_job(world: World) -> None:
    world.processes = dict.fromkeys(range(1, 5000), (BEGUN_MS, 1000))
    with pytest.raises(Refused, match="one job has 1 to"):
        world.ask("pause", processes=[[pid, BEGUN_MS] for pid in world.processes])
    paused = 0
    with pytest.raises(Refused, match="within the hour"):
        for first in range(1, 5000, MOST_PROCESSES):
            meant = [[pid, BEGUN_MS] for pid in range(first, min(first + MOST_PROCESSES, 5000))]
            world.ask("pause", processes=meant)
            paused += len(meant)
    assert paused == PROCESSES_AN_HOUR


def test_messages_to_a_person_within_an_hour_have_a_bound(world: World) -> None:
    told = {"job": "slurm:1", "user": "ada", "uid": 1000, "message": "idle", "hint": ""}
    for _ in range(MESSAGES_AN_HOUR):
        assert world.ask("tell", **told)["told"]["reached"] == ["terminal pts/1"]
    with pytest.raises(Refused, match="within the hour"):
        world.ask("tell", **told)
    assert world.ask("tell", **(told | {"uid": 1001}))["told"]["reached"]
    assert len(world.ear.heard) == MESSAGES_AN_HOUR + 1


@pytest.mark.parametrize("verb", ["kill", "signal", "exec", "", "PAUSE", "terminate"])
def test_there_is_no_other_verb(world: World, verb: str) -> None:
    with pytest.raises(Refused, match="not a verb"):
        world.ask(verb, processes=MEANT, pids=[50])
    assert world.rows() == []


def test_reading_leaves_no_row(world: World) -> None:
    seen = to_tree(Seen(node=NodeName("n"), pid=50, started_ms=BEGUN_MS))
    assert world.ask("targets", seen=[seen])["targets"][0]["pid"] == 50
    assert world.ask("host")["host"]["uid"] == 0
    assert world.ask("look", pids=[50])["deed"]["ok"] is True
    assert world.rows() == []


def test_it_becomes_nobody_to_look_at_what_it_never_paused(world: World) -> None:
    """For a look, too, a child becomes the owner of the process: the service names any pid it likes."""
    assert world.ask("look", pids=[50])["deed"]["states"] == {"50": "running"}, "by what NVML lists"
    world.measured = {51: {}}
    assert world.ask("look", pids=[51])["deed"]["states"] == {"51": NEVER_PAUSED}
    assert world.checkpointer.looked == {}
    world.ask("pause", processes=MEANT)
    world.ask("resume", processes=MEANT)
    world.again()
    states = world.ask("look", pids=[50, 51])["deed"]["states"]
    assert states == {"50": "checkpointed", "51": NEVER_PAUSED}
    assert world.checkpointer.looked == {50: BEGUN_MS}


def test_no_row_no_act(world: World) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    world.hand._journal._descriptor = full
    with pytest.raises(OSError, match="No space"):
        world.ask("pause", processes=MEANT)
    os.close(full)
    assert world.checkpointer.done == []


def test_the_journal_is_its_owners_alone(world: World) -> None:
    assert (world.folder / "journal.jsonl").stat().st_mode & 0o777 == 0o600
