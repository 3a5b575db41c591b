"""Shared by all tests: a clean environment, markers, what tests cost, and where the reference data lies."""

import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.costs import Bill, Meter
from tests.searches import LONG_VARIABLE
from tests.shared_services import PLUGIN, SharedServices
from tests.stores import TEMPLATES_VARIABLE

SHARED_VARIABLE = "FALLOW_SHARED"

OURS = (SHARED_VARIABLE, LONG_VARIABLE, "FALLOW_SEEDS", "FALLOW_CRASH_LINES")
"""What a person may set for a run of the tests."""
FOREIGN = (
    "FALLOW_",
    "SLURM_",
    "SBATCH_",
    "SQUEUE_",
    "CUDA_",
    "NVIDIA_",
    "KUBERNETES_",
    "TORCHELASTIC_",
    "XDG_",
)
"""Beginnings of names that say something to the program, or to what it starts."""
FOREIGN_NAMES = frozenset(
    {
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY"),
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("JPY_SESSION_NAME", "JUPYTERHUB_USER"),
        *("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "RUNTIME_DIRECTORY", "STATE_DIRECTORY"),
        *("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONWARNINGS"),
    }
)

PROCESS_FOLDERS = ("end_to_end", "fallow", "gpu", "service/launcher")
"""Where tests start what lives on: trainings, toys, launchers. A test that doesn't says ``quick``."""
PROCESS_FIXTURES = frozenset({"service", "door", "simulated", "dashboard"})
"""A service or a dashboard of its own: whoever asks for one is no quick test."""
BROWSER_FIXTURES = frozenset({"chromium", "look"})

TESTS = Path(__file__).parent

QUICK = "not slow and not process and not browser"
"""What ``tests/run.sh quick`` gives to ``-m``."""
NEVER_QUICK = re.compile(r"^pytestmark = \[?pytest\.mark\.(slow|process|browser|long|gpu)\b", re.MULTILINE)
"""A module whose tests all bear such a marker, as their first."""


def scrub(environment: "os._Environ[str]") -> None:
    """Take out what the person's shell says to programs: the tests say all of it themselves."""
    for name in list(environment):
        known = name.upper()
        if name not in OURS and (known.startswith(FOREIGN) or known in FOREIGN_NAMES):
            del environment[name]


scrub(os.environ)

# A forked child has none of DuckDB's threads: collecting a parent's connection is a segmentation fault.
os.register_at_fork(after_in_child=gc.freeze)

# A property holds or it doesn't: the same examples each time, and never a verdict on the machine's speed.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

# Whoever starts the tests in a shell's background, or by nohup, has them and theirs ignore these signals.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data: $FALLOW_SHARED, else ``../shared`` beside the checkout."""
    root = Path(os.environ.get(SHARED_VARIABLE, Path(__file__).parents[2] / "shared"))
    if not (root / "dcgm" / "README.md").is_file():
        pytest.skip(f"reference data not found at {root}; set {SHARED_VARIABLE} to its folder")
    return root


def program(name: str, package: str) -> str:
    """The path of an installed program, or skip, naming the Debian package that brings it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed; on Debian: apt-get install {package}")
    return path


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "write what each test took of the processors to FILE, a JSON object a line"
    parser.addoption("--costs", metavar="FILE", type=Path, help=about)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Reading hundreds of modules leaves next to nothing to collect, and each look at them takes longer.

    In a quick run, whose processes read all files, that is a million objects: frozen, they are no part of
    later looks.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        if session.config.option.markexpr == QUICK:
            gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Pytest looks for garbage again as it ends: 2.5 of the 11 s that a process takes to collect alone."""
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A quick run doesn't read files without a quick test: some import torch and what sits on it."""
    is_quick_run = config.option.markexpr == QUICK and collection_path.suffix == ".py"
    return True if is_quick_run and is_never_quick(collection_path) else None


@cache
def is_never_quick(path: Path) -> bool:
    """Whether no test of this file can be quick: by the marker of its module, or by its folder."""
    text = path.read_text(encoding="utf-8")
    if NEVER_QUICK.search(text):
        return True
    return folder_of(path) in PROCESS_FOLDERS and "mark.quick" not in text


def pytest_configure(config: pytest.Config) -> None:
    """Workers of pytest-xdist measure, the process that prints adds up; without workers one does both."""
    config.add_cleanup(
        gc.unfreeze
    )  # the last of all: DuckDB's library lists what is frozen at exit as leaked
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Meter(), "fallow-meter")
    config.pluginmanager.register(SharedServices(), PLUGIN)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Bill(config.getoption("costs")), "fallow-bill")
        os.environ[TEMPLATES_VARIABLE] = tempfile.mkdtemp(prefix="fallow-templates-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(TEMPLATES_VARIABLE))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what its folder or its fixtures say, before ``-m`` chooses in the same hook."""
    for item in items:
        for name in spoken_by(item):
            item.add_marker(name)
        if item.get_closest_marker("long") and not os.environ.get(LONG_VARIABLE):
            item.add_marker(pytest.mark.skip(reason=f"long: set {LONG_VARIABLE}=1, or make test-all"))


@cache
def folder_of(path: Path) -> str:
    """The folder of a file, below that of all tests; empty for one from elsewhere."""
    return path.relative_to(TESTS).parent.as_posix() if path.is_relative_to(TESTS) else ""


def spoken_by(item: pytest.Item) -> set[str]:
    """The markers that a test has though it doesn't say so."""
    fixtures = set(getattr(item, "fixturenames", ()))
    folder = folder_of(item.path)
    found = set()
    if fixtures & BROWSER_FIXTURES:
        found.add("browser")
    if fixtures & PROCESS_FIXTURES:
        found.add("process")
    if folder in PROCESS_FOLDERS and not item.get_closest_marker("quick"):
        found.add("process")
    if item.get_closest_marker("long") or item.get_closest_marker("gpu"):
        found.add("slow")
    return found
