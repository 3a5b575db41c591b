"""The service's side: the answers of probe and hand are those of the ports they stand for."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from advisor.engines.mps import find_mps
from advisor.engines.notify_owner import Notice
from advisor.jobs.external_jobs import Seen
from advisor.jobs.gpu_sharing import PIPE_DIRECTORY
from collector.model import GpuUuid, JobId, NodeName
from collector.procfs.process_table import ProcessTable
from service.privileged.client import HandCheckpointer, HandNotifier, ProbeTable, find_daemon
from service.privileged.hand import Hand
from service.privileged.journal import open_journal
from service.privileged.probe import MOST_PIDS, handler, one_at_a_time
from service.privileged.wire import Handler, Refused, Request, serve, server
from tests.service.privileged.test_hand import Ear, StandIn

OWN = os.geteuid()
NODE = NodeName("n1")
Serving = Callable[[Handler], Path]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    listeners: list[socket.socket] = []

    def begin(handle: Handler) -> Path:
        path = tmp_path / f"s{len(listeners)}.sock"
        listener = server(path)
        listeners.append(listener)
        threading.Thread(target=serve, args=(listener, {OWN}, handle), daemon=True).start()
        return path

    yield begin
    for each in listeners:
        each.close()


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "600"], env={"SLURM_JOB_ID": "7", "SECRET": "s3cret"})
    yield process
    process.kill()
    process.wait()


def test_the_probe_says_what_this_process_would_see(
    serving: Serving, sleeper: "subprocess.Popen[bytes]"
) -> None:
    path = serving(one_at_a_time(handler(ProcessTable(NODE))))
    table, own, now_ms = ProbeTable(NODE, path, (OWN,)), ProcessTable(NODE), time.time_ns() // 10**6
    found = table.look([sleeper.pid, os.getpid()], now_ms)
    assert found == own.look([sleeper.pid, os.getpid()], now_ms)
    assert ("SLURM_JOB_ID", "7") in found[sleeper.pid].environment
    assert "s3cret" not in str(found), "only the variables of the list travel"
    assert table.look([sleeper.pid], now_ms)[sleeper.pid] is found[sleeper.pid], "unchanged: the same object"
    table.close()
    own.close()


def test_one_process_that_the_probe_garbles_costs_itself_alone(
    serving: Serving, sleeper: "subprocess.Popen[bytes]", caplog: pytest.LogCaptureFixture
) -> None:
    probe = handler(ProcessTable(NODE))

    def garbling(request: Request, uid: int) -> Mapping[str, Any]:
        answer = dict(probe(request, uid))
        answer["processes"][str(os.getpid())]["uid"] = "many"
        return answer

    table, now_ms = ProbeTable(NODE, serving(garbling), (OWN,)), time.time_ns() // 10**6
    found = [table.look([sleeper.pid, os.getpid()], now_ms) for _ in range(2)][-1]
    assert ("SLURM_JOB_ID", "7") in found[sleeper.pid].environment
    assert found[os.getpid()].uid == OWN, "as far as this process may see it itself"
    assert [each.getMessage()[:50] for each in caplog.records] == [
        f"fallow-probe: what it says of process {os.getpid()} cannot be read"[:50]
    ]
    table.close()


def test_a_probe_that_answers_no_processes_counts_as_away(serving) -> None:
    table = ProbeTable(NODE, serving(lambda request, uid: {"processes": "none", "settled": True}), (OWN,))
    found = table.look([os.getpid()], time.time_ns() // 10**6)
    assert found[os.getpid()].key.pid == os.getpid(), "this process sees its own itself"
    assert not table.has_settled([os.getpid()])
    table.close()


def test_while_the_probe_is_away_the_service_sees_what_it_may(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = ProbeTable(NODE, tmp_path / "none.sock", (OWN,))
    now_ms = time.time_ns() // 10**6
    for _ in range(3):
        assert table.look([os.getpid()], now_ms)[os.getpid()].key.pid == os.getpid()
    assert table.has_settled([os.getpid()]) is False
    assert len(caplog.records) == 1, "said once"
    table.close()


def measured(pids: Sequence[int]) -> dict[int, dict[GpuUuid, int]]:
    return {pid: {GpuUuid("GPU-a"): 5} for pid in pids}


@pytest.mark.parametrize("pids", [[0], [-1], [2**31], [1] * (MOST_PIDS + 1)])
def test_the_probe_refuses_what_is_no_pid(pids: list[int]) -> None:
    with pytest.raises(Refused):
        handler(ProcessTable(NODE))({"verb": "look", "pids": pids}, OWN)


def test_the_probe_looks_for_an_mps_daemon_as_the_service_would(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALLOW_PROBE", str(serving(handler(ProcessTable(NODE)))))
    monkeypatch.setenv(PIPE_DIRECTORY, str(tmp_path / "pipes"))
    found = find_daemon((OWN,))
    assert found == find_mps() and str(tmp_path / "pipes") in found.why
    monkeypatch.setenv("FALLOW_PROBE", str(tmp_path / "none.sock"))
    assert "fallow-probe could not look" in find_daemon((OWN,)).why


@pytest.mark.parametrize("verb", ["read", "environ", "open", ""])
def test_the_probe_has_one_verb(verb: str) -> None:
    with pytest.raises(Refused, match="not a verb"):
        handler(ProcessTable(NODE))({"verb": verb, "pids": [1]}, OWN)


def test_a_pause_by_the_hand_and_the_way_back(
    serving: Serving, tmp_path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    checkpointer = StandIn()
    journal = open_journal(tmp_path / "journal.jsonl")
    path = serving(Hand(checkpointer, Ear(), journal, (), measure=measured).handle)
    hand = HandCheckpointer(path, lambda: "570.1", (OWN,), drivers=(570, 590))
    assert hand.host().driver_major == 570
    assert hand.host().drivers == (570, 590), "the site's list, and not the hand's"
    table = ProcessTable(NODE)
    process = table.look([sleeper.pid], time.time_ns() // 10**6)[sleeper.pid]
    table.close()
    seen = Seen(node=NODE, pid=sleeper.pid, started_ms=process.key.started_ms, memory_bytes=5)
    (target,) = hand.targets([seen])
    assert (target.pid, target.memory_bytes) == (sleeper.pid, 5)
    if OWN == 0:  # the hand leaves root's processes alone, and so says the deed
        deed = hand.pause([sleeper.pid], {}).ended(10)
        assert deed is not None and (deed.ok, deed.undone) == (False, True) and "root's" in deed.found
        assert checkpointer.done == []
        return
    for act in (hand.pause, hand.resume):
        deed = act([sleeper.pid], {sleeper.pid: {GpuUuid("GPU-a"): 7}}).ended(10)
        assert deed is not None and deed.ok
    assert [verb for verb, _ in checkpointer.done] == ["pause", "resume"]
    assert checkpointer.held == {sleeper.pid: {"GPU-a": 7}}


def test_without_the_hand_nothing_can_be_paused_and_the_reason_is_said(tmp_path: Path) -> None:
    hand = HandCheckpointer(tmp_path / "none.sock", lambda: "570.1", (OWN,))
    assert hand.host().architecture == "unknown"
    deed = hand.pause([os.getpid()], {}).ended(0)
    assert deed is not None and (deed.ok, deed.undone) == (False, True)
    assert "does not answer" in deed.found
    assert not hand.look([os.getpid()]).ok


def test_the_hand_tells_and_says_whom_it_reached(serving: Serving, tmp_path: Path) -> None:
    ear = Ear()
    path = serving(Hand(StandIn(), ear, open_journal(tmp_path / "journal.jsonl"), ()).handle)
    notice = Notice(job=JobId("slurm:1"), user="ada", uid=1000, message="it idles", hint="end it")
    assert HandNotifier(path, (OWN,)).notify(notice).reached == ("terminal pts/1",)
    assert ear.heard == [notice]
    assert HandNotifier(tmp_path / "none", (OWN,)).notify(notice).missed
