"""``fallow completion``: real shells take the scripts, and complete verbs, flags and orders."""

import subprocess

import pytest

from service.cli.completion import grammar, script
from tests.conftest import program

ASK = """
COMP_WORDS=({words}); COMP_CWORD={at}; _fallow; echo "${{COMPREPLY[*]}}"
"""


def completed(words: str, at: int) -> list[str]:
    """What bash offers for the word at a place."""
    text = script("bash", grammar()) + ASK.format(words=words, at=at)
    done = subprocess.run([program("bash", "bash"), "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_verbs_flags_and_orders() -> None:
    assert completed("fallow wa", 1) == ["waste"]
    assert completed("fallow --ver", 1) == ["--version"]
    assert completed("fallow waste --b", 2) == ["--by"]
    assert completed("fallow token ''", 2)[:3] == ["add", "list", "revoke"]
    assert completed("fallow nothing ''", 2)[:1] == ["init"], "an unknown verb: the verbs"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_the_script(shell: str) -> None:
    text = script(shell, grammar())
    assert "waste" in text and "by" in text
    done = subprocess.run(
        [program(shell, shell), "-n", "-c", text], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
