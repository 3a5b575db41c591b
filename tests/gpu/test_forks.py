"""The processes of a dry run: as `subprocess.Popen` makes them, but forked from one that has read modules."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu import forks

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
RUNS = (sys.executable, "-m", "timeit", "-n1", "-r1")


@pytest.fixture(scope="module")
def template() -> Iterator[forks.Template]:
    with forks.template({**os.environ, "PYTHONPATH": str(ROOT)}, modules=()) as made:
        yield made


def test_a_fork_reads_its_pipe_and_ends_with_its_status(template: forks.Template) -> None:
    words = (sys.executable, "-m", "json.tool", "--compact")
    process = template.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write('{"a": [1]}')
    process.stdin.close()
    assert process.stdout.read() == '{"a":[1]}\n'
    assert process.wait(20) == 0
    wrong = template.popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert wrong.wait(20) == 1, "an empty text is no JSON"


def test_a_fork_that_goes_on_is_waited_for_as_long_as_asked_and_told_to_end(template: forks.Template) -> None:
    process = template.popen([*RUNS, "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    process.terminate()
    assert process.wait(20) == -15


def test_a_step_has_its_own_session_and_environment_and_forks_its_loads_in_it(
    template: forks.Template, tmp_path: Path
) -> None:
    code = (
        "import os, sys; from tests.gpu import forks; "
        "code = 'import os; print(os.getsid(0), flush=True)'; "
        "words = (sys.executable, '-m', 'timeit', '-n1', '-r1', code); "
        "print(os.getpid(), os.environ['OF_THE_STEP'], flush=True); "
        "load = forks.here.popen(words); print(load.wait(20), flush=True); forks.here.end()"
    )
    words = tmp_path / "words"
    with words.open("w") as out:
        step = template.popen(
            [*RUNS, code], stdout=out, env={**os.environ, "OF_THE_STEP": "its"}, start_new_session=True
        )
        assert step.wait(20) == 0
    lines = words.read_text().splitlines()
    assert lines[0] == f"{step.pid} its"
    assert lines[1] == str(step.pid), "the session of its load"
    assert lines[3] == "0", "behind what timeit says of its load: how that ended"
