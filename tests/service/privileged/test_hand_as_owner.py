"""The hand with its real checkpointer: a made-up account's job is taken off and brought back in its name.

As root; skipped aloud elsewhere. Only the two libraries of the driver are stand-ins.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from advisor.engines.cuda_checkpointer import held_memory
from advisor.engines.gpu_room import ProcessMemory
from collector.procfs.checkpoint_blockers import owner
from service.privileged.hand import Hand
from service.privileged.journal import open_journal
from tests.advisor.engines.owned_parts import OWNER, OwnedCuda, as_owner, job, owned
from tests.advisor.engines.standin_parts import driver
from tests.driver.driver import GIB, Driver
from tests.service.privileged.test_hand import SERVICE, Ear

__all__ = ("driver", "job", "owned")

pytestmark = pytest.mark.slow


def test_a_job_is_paused_looked_at_and_resumed_in_its_owners_name(
    owned: OwnedCuda, job: "subprocess.Popen[bytes]", driver: Driver, tmp_path: Path
) -> None:
    driver.gpu(0).process(job.pid, GIB)

    def measured(pids: Sequence[int]) -> ProcessMemory:
        found = held_memory(pids)
        driver.gpu(0).no_processes()  # as a real GPU's list, once it was taken off
        return found

    hand = Hand(as_owner(), Ear(), open_journal(tmp_path / "journal.jsonl"), (), measure=measured)
    now = owner(job.pid)
    assert now is not None
    named = {"processes": [[job.pid, now.started_ms]]}
    paused = hand.handle({"verb": "pause", **named}, SERVICE)["deed"]
    assert (paused["ok"], owned.state(job.pid)) == (True, 2), paused
    looked = hand.handle({"verb": "look", "pids": [job.pid]}, SERVICE)["deed"]
    assert looked["states"] == {str(job.pid): "checkpointed"}
    resumed = hand.handle({"verb": "resume", **named}, SERVICE)["deed"]
    assert (resumed["ok"], owned.state(job.pid)) == (True, 0), resumed
    assert set(owned.asked()) == {(OWNER, OWNER, 0, False)}
    assert open_journal(tmp_path / "journal.jsonl").paused() == frozenset()


def test_a_pause_that_nvml_does_not_bear_out_can_still_be_brought_back(
    owned: OwnedCuda, job: "subprocess.Popen[bytes]", driver: Driver, tmp_path: Path
) -> None:
    """The child is of the owner's account and says what it likes, so its word alone is not enough."""
    driver.gpu(0).process(job.pid, GIB)

    def measured(pids: Sequence[int]) -> ProcessMemory:
        found = held_memory(pids)
        driver.fail("nvmlDeviceGetCount_v2", 999)
        return found

    journal = open_journal(tmp_path / "journal.jsonl")
    hand = Hand(as_owner(), Ear(), journal, (), measure=measured)
    now = owner(job.pid)
    assert now is not None
    request = {"verb": "pause", "processes": [[job.pid, now.started_ms]]}
    deed = hand.handle(request, SERVICE)["deed"]
    assert not deed["ok"] and not deed["undone"] and "NVML gives no list" in deed["found"]
    assert journal.paused() == {(job.pid, now.started_ms)}
