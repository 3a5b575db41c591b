"""Shared by all tests: where the reference data lies, and how a missing real part is announced."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SHARED_VARIABLE = "FALLOW_SHARED"
LONG_VARIABLE = "FALLOW_LONG"

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests are run where somebody asks for them: a check of every change has 25 minutes."""
    if os.environ.get(LONG_VARIABLE):
        return
    skip = pytest.mark.skip(reason=f"long: set {LONG_VARIABLE}=1, or make test-all")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)
