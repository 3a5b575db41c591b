"""A process whose first thread has ended is not gone: it computes, and holds its memory and its files."""

import os
import time
from pathlib import Path

from collector.model import NodeName
from collector.procfs.checkpoint_blockers import entanglement
from collector.procfs.proc_files import Denied, Folder, open_folder, parse_stat
from collector.procfs.process_table import ProcessTable
from collector.sources.nvml.identity import ProcessStarts
from tests.headless import headless

PROC = Path("/proc")


def opened(pid: int) -> Folder:
    folder = open_folder(PROC, pid)
    assert isinstance(folder, Folder)
    return folder


def test_it_is_gone_when_its_last_thread_is() -> None:
    with headless() as process:
        stat = parse_stat((PROC / str(process.pid) / "stat").read_bytes())
        assert (stat.state, stat.is_gone) == ("Z", False)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        stat = parse_stat((PROC / str(process.pid) / "stat").read_bytes())
        assert (stat.state, stat.is_gone) == ("Z", True)


def test_its_memory_its_words_and_its_files_are_read_of_a_thread_that_lives(tmp_path: Path) -> None:
    device = tmp_path / "nvidia0"
    device.touch()
    with headless(device) as process:
        folder = opened(process.pid)
        try:
            command, maps = folder.command(), folder.read("maps")
            assert isinstance(command, bytes) and str(device).encode() in command
            assert isinstance(maps, bytes) and b"python" in maps
            assert b"PATH=" in (folder.read("environ") or b"")  # type: ignore[operator]
            assert folder.holds_open(str(tmp_path / "nvidia")) is True
            process.kill()
            process.wait()
            assert isinstance(folder.read("maps"), Denied), "and of no other that has got its pid"
        finally:
            folder.close()


def test_it_keeps_its_name_and_its_user() -> None:
    with headless() as process:
        table = ProcessTable(NodeName("here"))
        try:
            (found,) = table.look([process.pid], round(time.time() * 1000)).values()
        finally:
            table.close()
        assert found.command is not None and "python" in found.command
        blocker = entanglement(process.pid)
        assert blocker is not None and blocker.managed_bytes == 0, "its map could be read"


def test_the_drivers_word_on_it_is_believed() -> None:
    with headless() as process:
        identities = ProcessStarts()
        try:
            assert identities.look([process.pid])[process.pid].started_ms is not None
        finally:
            identities.close()
