"""The kill switch: one look before every step, and nothing but starting again takes it away."""

import json
from pathlib import Path

import pytest

from advisor.actions import Action
from advisor.cycle import run_cycle
from advisor.journal.journal import StoreJournal
from advisor.journal.kill_switch import KillSwitch, Setting, read_file, stop_file, write_file
from advisor.journal.pending_plans import PendingPlans
from advisor.outcomes import Done, Outcome
from advisor.planner.limits import Limits, Mode
from advisor.state.model import ActionClass, Job
from collector.store.database import Store
from tests.advisor.journal.journal_parts import T0, Hands, cluster
from tests.stores import open_store

AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO))
QUEUE = cluster(*(Job(id=f"w{at}", project="owed", submitted_ms=at) for at in range(4)), on={})


def opened(folder: Path) -> Store:
    return open_store(folder / "fallow.duckdb")


class Throws:
    """An engine at whose second step somebody throws the switch."""

    def __init__(self, throw: object) -> None:
        self._throw = throw
        self.done: list[Action] = []

    def do(self, step: Action, intent: int = 0) -> Outcome:
        self.done.append(step)
        if len(self.done) == 2 and callable(self._throw):
            self._throw()
        return Done()


@pytest.mark.parametrize("by_file", [True, False], ids=["file", "service"])
def test_a_running_cycle_stops_before_its_next_step(tmp_path: Path, by_file: bool) -> None:
    with opened(tmp_path) as store:
        switch, clock = KillSwitch(store, tmp_path), Hands()
        said = Setting(acting=False, by="root", at_ms=T0, because="a demonstration")
        throw = (
            (lambda: write_file(tmp_path, said))
            if by_file
            else (lambda: switch.stop("root", T0, "a demonstration"))
        )
        engine, journal = Throws(throw), StoreJournal(store, clock)
        cycle = run_cycle(lambda: QUEUE, engine, journal, clock, AUTO, halted=switch.halt)
        assert len(cycle.ruling.approved.steps) == 4
        assert [step.job for step in engine.done] == ["w0", "w1"]
        assert (
            cycle.halt == "acting was stopped by root: a demonstration; `fallow start-acting` lets it go on"
        )
        assert [deed.job for deed in journal.deeds(since_ms=0)] == ["w1", "w0"]


def test_while_it_is_thrown_nothing_is_written_or_done(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        switch, clock = KillSwitch(store, tmp_path), Hands()
        switch.stop("root", T0, "")
        engine, journal = Throws(None), StoreJournal(store, clock)
        cycle = run_cycle(lambda: QUEUE, engine, journal, clock, AUTO, halted=switch.halt)
        assert (engine.done, journal.deeds(since_ms=0), PendingPlans(store).newest()) == ([], (), ())
        assert cycle.halt == "acting was stopped by root; `fallow start-acting` lets it go on"


def test_a_service_that_may_not_be_the_head_does_nothing_whatever_a_person_says(tmp_path: Path) -> None:
    why: list[str | None] = ["another head took over"]
    with opened(tmp_path) as store:
        switch, clock = KillSwitch(store, tmp_path, lambda: why[0]), Hands()
        switch.start("root", T0)
        engine = Throws(None)
        cycle = run_cycle(lambda: QUEUE, engine, StoreJournal(store, clock), clock, AUTO, halted=switch.halt)
        assert (engine.done, cycle.halt) == ([], "another head took over")
        assert switch.setting() == Setting(acting=False, because="another head took over")
        why[0] = None
        assert switch.halt() is None and switch.setting().acting


def test_it_survives_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert KillSwitch(store, tmp_path).setting() == Setting(acting=True)
        stopped = KillSwitch(store, tmp_path).stop("ann", T0, "rack 4 is on fire")
    with opened(tmp_path) as store:
        assert KillSwitch(store, tmp_path).setting() == stopped


def test_a_file_stops_without_a_service_and_is_kept_when_one_comes(tmp_path: Path) -> None:
    said = Setting(acting=False, by="ann", at_ms=T0, because="the service is down")
    write_file(tmp_path, said)
    with opened(tmp_path) as store:
        assert KillSwitch(store, tmp_path).setting() == said
        assert KillSwitch(store, tmp_path).adopt() == said
    stop_file(tmp_path).unlink()
    with opened(tmp_path) as store:
        assert KillSwitch(store, tmp_path).setting() == said


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"by": 1}', b"x" * 100_000])
def test_whatever_the_file_holds_it_stops(tmp_path: Path, content: bytes) -> None:
    stop_file(tmp_path).write_bytes(content)
    with opened(tmp_path) as store:
        assert not KillSwitch(store, tmp_path).setting().acting


def test_a_folder_in_its_place_stops_as_well(tmp_path: Path) -> None:
    stop_file(tmp_path).mkdir()
    with opened(tmp_path) as store:
        switch = KillSwitch(store, tmp_path)
        assert "cannot be read" in (switch.halt() or "")
        with pytest.raises(OSError, match="stop-acting"):
            switch.start("root", T0)
        assert not switch.setting().acting


def test_starting_takes_row_and_file_away(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        switch = KillSwitch(store, tmp_path)
        switch.stop("ann", T0, "")
        write_file(tmp_path, Setting(acting=False, by="bob", at_ms=T0, because=""))
        started = switch.start("root", T0 + 1, "it is out")
        assert started == Setting(acting=True, by="root", at_ms=T0 + 1, because="it is out")
        assert switch.halt() is None
        assert not stop_file(tmp_path).exists()
    with opened(tmp_path) as store:
        assert KillSwitch(store, tmp_path).setting() == started


def test_the_file_is_whole_or_not_there(tmp_path: Path) -> None:
    said = Setting(acting=False, by="ann", at_ms=None, because='a "quoted"\nreason')
    assert read_file(stop_file(tmp_path)) is None
    write_file(tmp_path, said)
    assert read_file(stop_file(tmp_path)) == said
    assert [path.name for path in tmp_path.iterdir()] == ["stop-acting"]
    assert json.loads(stop_file(tmp_path).read_text())["because"] == said.because
