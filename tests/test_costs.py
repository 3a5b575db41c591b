"""What a test takes of the processors is counted for who took it; silence about much of it fails a run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = """
from pathlib import Path
from tests import costs

costs.SHOWN_S, costs.SHARED_SHOWN_S, costs.REFUSED_S, costs.REFUSED_QUICK_S = 0.1, 0.1, 0.3, 9

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: says so")
    config.addinivalue_line("markers", "quick: says so")
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(costs.Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(costs.Bill(Path("costs")))
"""
TESTS = """
import subprocess, sys, time
import pytest

def burn(much_s):
    begun_s = time.process_time()
    while time.process_time() - begun_s < much_s:
        pass

@pytest.fixture(scope="session")
def shared():
    burn(0.15)
    yield
    burn(0.15)

@pytest.fixture
def own():
    burn(0.06)
    yield
    burn(0.06)

def test_little(shared):
    pass

def test_by_its_fixture(shared, own):
    pass

def test_by_a_process():
    burn = "import time\\nwhile time.process_time() < 0.15: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)

@pytest.mark.slow
def test_that_says_so():
    burn(0.4)

def test_last(shared):
    time.sleep(0.5)
"""
MUCH = """
def test_too_much():
    burn(0.35)

@pytest.mark.quick
def test_quick_by_name():
    burn(0.35)
"""


def played(folder: Path, text: str, *words: str) -> tuple[int, str, dict[str, dict[str, float]]]:
    """The exit status, the output and what each test took."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--rootdir",
        str(folder),
        "-p",
        "no:cacheprovider",
        *words,
    ]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in (folder / "costs").read_text().splitlines()]
    return done.returncode, done.stdout, {line["test"].split("::")[1]: line for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--numprocesses=2", "--dist=loadfile")], ids=["alone", "workers"])
def test_each_is_counted_for_itself_and_who_takes_much_is_named(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    status, said, took = played(tmp_path, TESTS, *words)
    assert (status, len(took)) == (0, 5), said
    assert took["test_little"]["own_s"] < 0.1 <= took["test_little"]["shared_s"]
    assert took["test_by_its_fixture"]["own_s"] >= 0.11
    assert took["test_by_a_process"]["own_s"] >= 0.14
    assert took["test_last"]["own_s"] < 0.1 <= took["test_last"]["shared_s"]
    named = [line.split("::")[1] for line in said.splitlines() if " s  test_it.py::" in line]
    shared = " (its shared fixtures)"
    expected = ["test_by_its_fixture", "test_by_a_process", f"test_little{shared}", f"test_last{shared}"]
    assert sorted(named) == sorted(expected)


@pytest.mark.slow
def test_silence_about_much_fails_the_run(tmp_path: Path) -> None:
    status, said, _ = played(tmp_path, TESTS + MUCH)
    assert (status, "7 passed" in said) == (1, True)
    assert "FAILED: 1 took over 0.3 s; make them cheaper, or mark them slow" in said
