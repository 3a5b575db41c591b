"""Processes of before an upgrade start their children by old names: those still lead to the same program."""

import subprocess
import sys
from importlib import import_module

import pytest

STAND_INS = {
    "advisor engines checkpoint_child": "advisor.engines.cuda_checkpoint_child",
    "collector nvml child": "collector.sources.nvml.child",
    "collector nvml free_memory": "collector.sources.nvml.free_memory",
    "collector nvml held_memory": "collector.sources.nvml.held_memory",
    "fallow machines cradle": "fallow.workers.fork_server",
    "service delivery direct": "service.notify.direct",
    "service delivery sender": "service.notify.sender",
}
"""Old names, in words so that no renaming takes them along, and today's modules."""


@pytest.mark.parametrize(("words", "today"), STAND_INS.items())
def test_an_old_name_of_a_child_is_the_same_program(words: str, today: str) -> None:
    old = ".".join(words.split())
    assert import_module(old).main is import_module(today).main
    answers = [
        subprocess.run([sys.executable, "-m", name], capture_output=True, text=True, timeout=60, check=False)
        for name in (old, today)
    ]
    assert answers[0].returncode == answers[1].returncode
    assert answers[0].stdout == answers[1].stdout
    assert answers[0].stderr.splitlines()[-1:] == answers[1].stderr.splitlines()[-1:]
