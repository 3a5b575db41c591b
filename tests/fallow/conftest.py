"""Before torch is imported: its store logs a warning for every slice of a wait, which is no news here."""

import os

import pytest

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # many workers share the machine


@pytest.fixture(autouse=True)
def _keeps_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that leaves lowers the priority of its process: not so one that is a thread of the tests."""
    try:
        from fallow.process_group import membership_client
    except ImportError:  # no torch: whoever needs it skips aloud
        return
    monkeypatch.setattr(membership_client, "_step_back", lambda: None)
