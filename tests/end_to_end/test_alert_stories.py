"""An owner is told by message, types the command that stands in it, and is told that it is over.

Service, store, notebook, terminal, messages and their server are real; the NVIDIA driver is a stand-in, and
the calendar hurries.
"""

import getpass
import os
import shlex
from pathlib import Path

import pytest

from examples.demo.stage import Setting, Stage
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
