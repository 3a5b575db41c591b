"""No real job is ever given a simulated GPU: the register refuses, and the switch stays thrown."""

from pathlib import Path

import pytest

from advisor.jobs.leased_gpus import Taken
from advisor.jobs.model import StartCommand
from advisor.journal.kill_switch import SIMULATED, KillSwitch
from collector.model import SIMULATED_SOURCE, GpuUuid
from tests.advisor.jobs.job_store_world import HandClock, opened, submission
from tests.collector.store.store_parts import T0, older_file, sample, tick, uuid


def test_a_simulated_gpu_is_given_to_nobody(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    with store:
        store.write_tick(tick(T0, [sample(0, T0)], source=SIMULATED_SOURCE))
        entry, _ = register.submit(submission())
        with pytest.raises(Taken, match="simulated"):
            register.give(entry.id, StartCommand(number=1, gpus=(uuid(0),), share=1.0))
        assert register.holders() == {}
        assert register.entry(entry.id).gpus == ()


def test_of_a_store_that_was_filled_from_both_only_real_gpus_are_given(tmp_path: Path) -> None:
    with older_file(tmp_path / "fallow.duckdb", 36) as older:
        for number, source in enumerate(("nvml", SIMULATED_SOURCE)):
            older.execute(
                "INSERT INTO gpus (uuid, node, source, installed_from) VALUES (?, 'n0', ?, now()::TIMESTAMP)",
                [uuid(number), source],
            )
    store, register = opened(tmp_path, HandClock())
    with store:
        entry, _ = register.submit(submission())
        with pytest.raises(Taken, match="simulated"):
            register.give(entry.id, StartCommand(number=1, gpus=(uuid(0), uuid(1)), share=1.0))
        given = register.give(entry.id, StartCommand(number=2, gpus=(uuid(0),), share=1.0))
        assert given.gpus == (uuid(0),)


def test_the_switch_of_a_simulated_cluster_is_thrown_for_good(tmp_path: Path) -> None:
    store, _ = opened(tmp_path, HandClock())
    with store:
        switch = KillSwitch(store, tmp_path)
        assert switch.halt() is None
        store.write_tick(tick(T0, [sample(0, T0)], source=SIMULATED_SOURCE))
        assert switch.halt() == SIMULATED
        switch.start("ann", T0)
        assert (switch.halt(), switch.setting().acting) == (SIMULATED, False)


def test_gpus_of_a_real_store_are_given_as_ever(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    with store:
        store.write_tick(tick(T0, [sample(0, T0)], source="nvml"))
        entry, _ = register.submit(submission())
        assert register.give(entry.id, StartCommand(number=1, gpus=(GpuUuid(uuid(0)),), share=1.0)).gpus == (
            uuid(0),
        )
