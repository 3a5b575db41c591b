"""What a report says counts within what can be, and for the processes that the kernel says are meant."""

import math
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs.model import JobRecord, JobState, Launcher, Report, Submission
from advisor.state.model import ProjectName
from collector.model import JobId, JobKind, NodeName
from service.control.interface import Caller, Role
from service.control.launcher_reports import plausible
from service.control.peer_processes import PeerProcesses
from tests.headless import headless

NODE = NodeName(socket.gethostname())
NOW_MS = 1_700_000_000_000
OWNER = Caller(name="anna", uid=os.getuid(), role=Role.USER, pid=os.getpid())
ENTRY = JobRecord(
    id=JobId("fallow:7"),
    submission=Submission(command=("train",), user="anna", uid=os.getuid(), project=ProjectName("lab")),
)
WORD = Report(
    at_ms=NOW_MS, launcher=Launcher(node=NODE, pid=os.getpid(), started_ms=1), state=JobState.RUNNING
)


def test_times_to_come_and_speeds_of_no_training_are_left_out() -> None:
    said = replace(
        WORD,
        at_ms=NOW_MS + 10**9,
        checkpoint_ms=NOW_MS + 10_000,
        steps_left=1e15,
        resize_s=1e15,
        step_s={1: 5e-324, 2: 0.0, 3: 0.5, 4: 1e15},
    )
    assert plausible(said, NOW_MS) == replace(
        WORD, at_ms=NOW_MS, checkpoint_ms=None, steps_left=None, resize_s=None, step_s={3: 0.5}
    )


def test_what_can_be_is_left_as_it_is() -> None:
    said = replace(
        WORD,
        at_ms=NOW_MS - 1,
        checkpoint_ms=NOW_MS + 1_000,
        steps_left=1e6,
        resize_s=20.0,
        step_s={1: 0.001, 8: 60.0},
        step=2**53,
        counted_ms=2**53,
    )
    assert plausible(said, NOW_MS) == said


def test_no_number_that_is_left_breaks_what_is_reckoned_with_it() -> None:
    from advisor.planner.limits import Limits
    from advisor.planner.throughput import growth_pays, hoped
    from advisor.state.model import Job, Profile

    extremes = (0.0, 5e-324, 1e-300, 1e-7, 1e-6, 1e7, 1e15)
    for one in extremes:
        for two in extremes:
            said = replace(WORD, step_s={1: one, 2: two}, steps_left=1e15, resize_s=1e15)
            taken = plausible(said, NOW_MS)
            if not taken.step_s:
                continue
            profile = Profile(step_s=dict(taken.step_s), steps_left=taken.steps_left, resize_s=taken.resize_s)
            job = Job(id=JobId("a"), project=ProjectName("p"), min_gpus=1, max_gpus=64, profile=profile)
            assert all(math.isfinite(each) for each in hoped(profile, 64).step_s.values())
            growth_pays(job, 1, 2, Limits())


def test_a_launcher_that_speaks_for_itself_is_the_process_that_the_kernel_names() -> None:
    found = PeerProcesses().meant(OWNER, ENTRY, WORD)
    assert (found.launcher.node, found.launcher.pid) == (NODE, os.getpid())
    assert found.launcher.started_ms > 1_000_000_000_000, "when it began is the kernel's word too"
    elsewhere = replace(WORD, launcher=replace(WORD.launcher, node=NodeName("a-container")))
    assert PeerProcesses().meant(OWNER, ENTRY, elsewhere).launcher == found.launcher


@pytest.mark.parametrize(
    "caller",
    [
        replace(OWNER, pid=None),
        replace(OWNER, pid=os.getppid()),
        replace(OWNER, pid=2**22 - 1),
        replace(OWNER, uid=os.getuid() + 1, role=Role.OPERATOR),
        replace(OWNER, uid=None),
    ],
)
def test_a_word_that_somebody_else_brings_is_about_no_other_process(caller: Caller) -> None:
    """Over TCP, through a forwarded socket, by an operator: it stays a word (``test_control_liveness``)."""
    assert PeerProcesses().meant(caller, ENTRY, WORD) == WORD


def test_how_a_job_stands_is_told_to_its_launcher_alone() -> None:
    peers = PeerProcesses()
    known = replace(ENTRY, launcher=peers.meant(OWNER, ENTRY, WORD).launcher)
    assert peers.is_launcher(OWNER, known)
    assert not peers.is_launcher(OWNER, ENTRY)
    assert not peers.is_launcher(replace(OWNER, pid=os.getppid()), known)
    assert not peers.is_launcher(replace(OWNER, uid=os.getuid() + 1), known)
    assert not peers.is_launcher(replace(OWNER, pid=None), known)
    assert known.launcher is not None
    other = replace(known, launcher=replace(known.launcher, started_ms=known.launcher.started_ms - 60_000))
    assert not peers.is_launcher(OWNER, other), "the pid was another process's then"


def test_a_launcher_whose_first_thread_has_ended_is_the_launcher_still() -> None:
    peers = PeerProcesses()
    with headless() as process:
        caller = replace(OWNER, pid=process.pid)
        said = replace(WORD, launcher=replace(WORD.launcher, pid=process.pid))
        found = peers.meant(caller, ENTRY, said).launcher
        assert found.pid == process.pid and found.started_ms > 1, "by the kernel's word"
        assert peers.is_launcher(caller, replace(ENTRY, launcher=found))


def test_nobody_sits_at_a_terminal_that_a_launcher_does_not_have() -> None:
    quiet = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    with quiet:
        assert quiet.stdin is not None
        there = replace(ENTRY, submission=replace(ENTRY.submission, kind=JobKind.INTERACTIVE))
        caller = replace(OWNER, pid=quiet.pid)
        said = replace(WORD, launcher=replace(WORD.launcher, pid=quiet.pid), attached=True, quiet_s=0.0)
        assert PeerProcesses().meant(caller, there, said).attached is False
        assert PeerProcesses().meant(caller, ENTRY, said).attached is True, "nobody asks of a batch job"
        unseen = replace(caller, pid=None)
        assert PeerProcesses().meant(unseen, there, said).attached is True
        quiet.stdin.close()


def test_what_a_process_tree_means_is_looked_up_once(tmp_path: Path) -> None:
    peers = PeerProcesses()
    assert not peers.knows(OWNER, ENTRY, WORD)
    first = peers.meant(OWNER, ENTRY, WORD)
    assert peers.knows(OWNER, ENTRY, replace(WORD, at_ms=1, step=9))
    assert not peers.knows(OWNER, ENTRY, replace(WORD, pids=(1,)))
    assert peers.knows(replace(OWNER, pid=None), ENTRY, replace(WORD, pids=(1,)))
    assert peers.meant(OWNER, ENTRY, replace(WORD, step=9)).launcher == first.launcher
