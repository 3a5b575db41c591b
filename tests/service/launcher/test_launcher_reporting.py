"""What a launcher keeps of a job's own word, when its workers leave and others come."""

import pytest

from service.launcher.reporting import OwnStatus

pytestmark = pytest.mark.quick


def test_what_was_measured_once_stays_known_when_the_workers_have_left() -> None:
    first = {"step": 9, "step_s": {"1": 1.0}, "resize_s": 0.5, "memory_needed_bytes": 7}
    known = OwnStatus.of_status(first, OwnStatus(), 1)
    known = OwnStatus.of_status({"step_s": {"2": 0.6}, "memory_needed_bytes": 5}, known, 2)
    assert (known.step_s, known.resize_s, known.memory_needed_bytes) == ({1: 1.0, 2: 0.6}, 0.5, 7)
    known = OwnStatus.of_status({"step_s": {"1": 0.9}, "resize_s": 0.4, "held": 3, "needed": 8}, known, 3)
    assert (known.step_s, known.resize_s) == ({1: 0.9, 2: 0.6}, 0.4), "the newest word on each"
    assert (known.memory_held_bytes, known.memory_needed_bytes) == (3, 8)


def test_what_holds_for_the_moment_only_is_forgotten_with_it() -> None:
    known = OwnStatus.of_status({"step": 9, "memory_held_bytes": 7}, OwnStatus(), 1)
    known = OwnStatus.of_status({}, known, 2)
    assert (known.step, known.counted_ms, known.memory_held_bytes, known.pids) == (None, None, None, ())
