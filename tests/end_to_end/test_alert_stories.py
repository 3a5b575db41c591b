"""Messages of a running service: an owner is told, types the command that stands in it, and hears that it is
over; a hog's owner and the operators are told, and the operators again when nothing is measured any more.

Service, store, notebook, terminal, messages and their server are real; the NVIDIA driver is a stand-in, and
the calendar hurries.
"""

import getpass
import os
import shlex
from pathlib import Path

import pytest

from examples.demo.stage import Setting, Stage
from tests.driver.driver import UNKNOWN
from tests.end_to_end.test_foreign_stories import LONG_S, by_hand
from tests.service.delivery.servers import webhook

SETTINGS = """
[modes]
reclaim = "auto"

[consent]
preemptible = ["*"]
checkpointable = ["*"]

[acting]
every_s = 1

[delivery]
person = "json://127.0.0.1:{port}/{{user}}?cto=5&rto=5"

[alerts]
closes_after_s = 60
dashboard_url = "http://gpus.example.org"
"""


@pytest.mark.long
def test_owner_types_the_command_of_the_message_and_hears_that_it_is_over(
    compiled: None, tmp_path: Path
) -> None:
    me = getpass.getuser()
    with (
        webhook() as hook,
        Stage(tmp_path / "stage", Setting(settings=SETTINGS.format(port=hook.port))) as stage,
    ):
        notebook = by_hand(stage, tmp_path)
        try:
            stage.until("a message comes", lambda: hook.taken, LONG_S)
            first = str(hook.taken[0]["message"])
            assert "without using" in first and "It is paused" not in first
            assert "What happens next: Nothing is done to it: " in first
            lines = [line for line in first.splitlines() if line.startswith("To keep it: ")]
            typed = shlex.split(lines[0].removeprefix("To keep it: "))
            job = typed[2]
            assert f"jobs?job={job.replace(':', '%3A').replace('/', '%2F').replace('@', '%40')}" in first
            terminal = f"terminal {notebook.path.relative_to('/dev')}"
            said = stage.until(
                "it is written down whom it reached",
                lambda: [
                    row for row in stage.rows("spoken", from_ts=0) if "message" in (row["reached"] or "")
                ],
                LONG_S,
            )
            assert [(row["job"], row["reached"]) for row in said] == [(job, f"{terminal}, message to {me}")]
            done = stage.fallow(*typed[1:])
            assert done.returncode == 0, done.stderr
            stage.until("it is over", lambda: len(hook.taken) > 1, LONG_S)
            over = str(hook.taken[1]["message"])
            assert over.startswith("This is over: its owner keeps it for ")
            (row,) = [
                row
                for row in stage.rows("alerts", from_ts=0, to_ts=2**42 // 60_000 * 60_000)
                if row["job"] == job
            ]
            assert (row["told"], row["closed_at"] is not None) == (f"user:{me}", True)
            assert notebook.process.poll() is None
        finally:
            notebook.process.kill()
            notebook.process.wait()
            os.close(notebook.keys)


HOG = """
[findings]
hog_window_s = 600
coverage_ratio = 0.6
stale_ticks = 6

[delivery]
person = "json://127.0.0.1:{port}/{{user}}?cto=5&rto=5"

[alerts]
to = ["json://127.0.0.1:{port}/operators?cto=5&rto=5"]
closes_after_s = 60
"""


@pytest.mark.long
def test_hogs_owner_and_operators_are_told_and_they_again_when_nothing_is_measured(
    compiled: None, tmp_path: Path
) -> None:
    me = getpass.getuser()
    with (
        webhook() as hook,
        Stage(tmp_path / "stage", Setting(settings=HOG.format(port=hook.port))) as stage,
    ):

        def told(words: str) -> list[str]:
            return [text for each in hook.taken if words in (text := str(each["message"]))]

        flags = ("--gpus", "1", "--no-memory-defaults")
        toy = ("tensorflow_like", "--needs", "8", "--busy", "15", "--steps", "100000")
        stage.run("hog", flags, toy)
        stage.until("owner and operators hear of it", lambda: len(told("hardly touches")) == 2, 2 * LONG_S)
        for text in told("hardly touches"):
            assert "The running job is left alone" in text
            assert "fallow keep" in text
        for function in ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2"):
            stage.driver.fail(function, UNKNOWN)
        (blind,) = stage.until("the operators hear of that", lambda: told("cannot be read since"), LONG_S)
        assert "nvml cannot be read since" in blind
        stage.driver.heal()
        stage.until("and that it is over", lambda: told("This is over"), LONG_S)
        rows = stage.rows("alerts", from_ts=0, to_ts=2**42 // 60_000 * 60_000)
        kinds = {(row["kind"], row["closed_at"] is not None) for row in rows}
        assert kinds >= {("memory-hog", False), ("collector-blind", True)}
        assert me in {row["user_name"] for row in rows if row["kind"] == "memory-hog"}
