"""Trainings on a device that isn't the CPU, without a GPU: nothing mixes devices, and little waits for one.

Each runs in a process of its own, since a device once registered stays.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("torch") is None:  # asked for, not imported: only the processes need it
    pytest.skip("torch is not installed; pip install -c constraints.txt torch", allow_module_level=True)

ROOT = Path(__file__).parents[2]


def told(folder: Path, *names: str) -> dict[str, Any]:
    """What these parts of the script ``on_pretend``, which reads torch once for them all, came to."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.fallow.on_pretend", str(folder), *names],
        cwd=ROOT,
        env={**os.environ, "TEST_DEVICE": "pretend", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    result: dict[str, Any] = json.loads(run.stdout)
    return result


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    names = ("trainings", "waits", "not-finite", "resumed", "profiled", "gated", "handed", "resized")
    return told(tmp_path_factory.mktemp("parts"), *names)


@pytest.mark.slow
def test_each_way_to_train_on_such_a_device_learns_what_it_learns_on_the_cpu(parts: dict[str, Any]) -> None:
    for learned in parts["trainings"]:
        assert learned["pretend"] == learned["cpu"], learned["name"]


@pytest.mark.slow
def test_a_training_alone_or_growing_on_such_a_device_learns_what_it_learns_on_the_cpu(
    tmp_path: Path,
) -> None:
    found = told(tmp_path, "one-training", "resized-once")
    (learned,) = found["one-training"]
    assert learned["pretend"] == learned["cpu"]
    check_resized(found["resized-once"], [1, 2])


@pytest.mark.slow
def test_a_resized_training_on_such_a_device_learns_what_one_on_the_cpu_learns(parts: dict[str, Any]) -> None:
    check_resized(parts["resized"], [1, 2, 3])


def check_resized(learned: Any, worlds: list[int]) -> None:
    """It ended well, had these numbers of workers, and learned what one alone does."""
    assert learned["exit_code"] == 0, learned["journal"]
    assert learned["worlds"] == worlds, learned["journal"]
    assert learned["finished"] > 0
    assert learned["furthest"] < 1e-12


@pytest.mark.slow
def test_alone_a_step_waits_for_its_device_no_more_than_a_plain_loop_and_driven_once_more(
    parts: dict[str, Any],
) -> None:
    """However many micro-batches it has: a wait in each would be hidden on a CPU, and felt on a GPU."""
    for found in parts["waits"]:
        assert found["beyond"] == (0 if found["name"].startswith("alone") else 1), found


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_a_training_that_waits_for_nothing_and_is_never_saved(
    parts: dict[str, Any],
) -> None:
    for found in parts["not-finite"]:
        assert found["ended"] == 3, "asked to save, it looked"
        assert "step 3: the loss over the global batch is nan; the parameters were updated by" in found["why"]
        assert found["saved"] == 2


@pytest.mark.slow
def test_a_resumed_training_has_all_where_it_was_and_waits_no_more_than_before(parts: dict[str, Any]) -> None:
    """Saved through copies on the host; a step count that came back to the device would cost waits."""
    found = parts["resumed"]
    assert found["resumed"] == found["unstopped"]
    assert found["resumed"]["steps lie on"] == ["cpu"]
    assert found["resumed"]["beyond"] == 0
    on_cpu = {name: found["resumed"][name] for name in ("parameters", "average", "steps lie on")}
    assert found["resumed on the CPU"] == on_cpu, "what was saved there is read everywhere"


NO_AMP = "no AMP on the pretend device: mixed precision is tried on the CPU, and by tests/gpu on a GPU"
NOT_COMPILED = "nothing is compiled for the pretend device: tried on the CPU, and by tests/gpu on a GPU"


TRAININGS = ("test_training.py", "test_epochs_resized.py")
KILLS = ("test_checkpoint.py", "test_crashes.py", "test_combinations.py")
"""In one run, which reads torch once: 353 s of processor time, which the lane of trainings has not."""
SAMPLES = (
    "test_crashes.py::test_a_worker_killed_anywhere_changes_nothing_that_is_learned[w2/after-sum-of-3/3]",
    "test_checkpoint.py::test_a_training_resumed_at_any_world_size_equals_one_that_never_stopped[3]",
    "test_combinations.py::test_alone_it_learns_what_a_plain_loop_over_whole_batches_learns[tied-and-unused]",
)
"""One of each, for every run of the lane."""
CHOSEN = (
    "resize or whatever or after_a_step or joiner or killed_anywhere or resumed_at_any or alone_it_learns"
)
"""Of TRAININGS those that are resized; the others meet nothing there that the parts above don't."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param([*TRAININGS, *SAMPLES, "-k", CHOSEN], id="resized"),
        pytest.param(TRAININGS, marks=pytest.mark.long, id="trainings"),
        pytest.param(KILLS, marks=pytest.mark.long, id="kills"),
        pytest.param(["test_noisy_training.py"], marks=pytest.mark.skip(reason=NO_AMP), id="AMP"),
        pytest.param(["test_compiled.py"], marks=pytest.mark.skip(reason=NOT_COMPILED), id="compiled"),
    ],
)
def test_resizes_kills_and_checkpoints_hold_there_as_they_do_on_the_cpu(words: Sequence[str]) -> None:
    """The same tests again, with their trainings on the pretend device, and in groups over host copies."""
    files = [f"tests/fallow/{word}" if ".py" in word else word for word in words]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env={**os.environ, "TEST_DEVICE": "pretend", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    print(run.stdout[-2000:])
    assert run.returncode == 0, run.stdout[-5000:]
    assert " passed" in run.stdout


@pytest.mark.slow
def test_a_state_is_handed_over_from_device_to_device_as_it_was_and_in_place(parts: dict[str, Any]) -> None:
    found = parts["handed"]
    assert found["errors"] == []
    assert found["bytes"] > 3 * 8 * 1024 * 1024
    assert found["wrong"] == found["elsewhere"] == found["not in place"] == []


@pytest.mark.slow
def test_a_layers_time_is_its_devices_and_no_run_of_it_is_waited_for(parts: dict[str, Any]) -> None:
    found = parts["profiled"]
    assert found["times"] == [[1000.0, 1000.0]] * 4, "by events: the pretend device's lie 1 ms apart"
    assert found["waits"].count("synchronize") == 4, "once for each layer and batch"


@pytest.mark.slow
def test_a_background_jobs_pieces_are_measured_on_the_devices_that_they_run_on(parts: dict[str, Any]) -> None:
    """Of a job on a GPU that isn't the current one, or on two: the current one's queue tells nothing."""
    *on_device, beside = parts["gated"]["lasts_s"]
    assert on_device == [0.001] * 3, "by events: the pretend device's lie 1 ms apart"
    assert beside != 0.001, "by the clock"
    assert parts["gated"]["works"], "what was launched is done when the device says so"
