"""What one could change: advice with its settings first, and no word against what was not measured."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.summaries.recommendations import NOTHING, Held, changes, held_of, measured_of, told_held

WHOLE = {"slurm:1": 1.0, "slurm:2": 1.0}


def job(name: str = "slurm:1", *, held: float = 10.0, wasted: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "job": name,
        "job_name": "fit",
        "command": "python fit.py",
        "gpus": 2,
        "gpu_hours": held,
        "used_gpu_hours": held / 2,
        "wasted_gpu_hours": wasted,
        **more,
    }


def advice(name: str = "slurm:1", *settings: tuple[str, str]) -> dict[str, Any]:
    steps = [{"verb": "set env at restart", "settings": list(settings)}, {"verb": "notify"}]
    return {
        "class": "cap-memory",
        "job": name,
        "what": "Launch fit with growth next time",
        "why": "It took all.",
        "steps": steps,
    }


def finding(kind: str = "low-saturation", name: str = "slurm:1") -> dict[str, Any]:
    return {"kind": kind, "job": name, "sentence": f"A GPU of {name} does little."}


def held(**figures: Any) -> Held:
    plain = {"utilization": 0.5, "measured": 1.0}
    return held_of([job(wasted=figures.pop("wasted", 0.0))], **(plain | figures))


def test_advice_about_own_jobs_comes_with_its_settings_and_that_of_others_does_not() -> None:
    found = changes(
        [job()],
        [
            advice("slurm:1", ("TF_FORCE_GPU_ALLOW_GROWTH", "true"), ("A", "b c; rm")),
            advice("slurm:9", ("X", "1")),
            advice("slurm:1", ("TF_FORCE_GPU_ALLOW_GROWTH", "true")),
        ],
        [finding(), finding("memory-hog")],
        WHOLE,
        name=None,
    )
    assert found.sentences[0] == "Launch fit with growth next time. It took all."
    assert found.sentences[2:] == ("A GPU of slurm:1 does little.",), "the hog was told with its advice"
    assert found.commands == ("export TF_FORCE_GPU_ALLOW_GROWTH=true", "export A='b c; rm'")


def test_what_is_found_on_several_gpus_of_a_job_is_one_sentence() -> None:
    idle = [finding("held-idle") | {"uuid": f"GPU-{n}"} for n in range(3)]
    said = changes([job()], [], idle, WHOLE, name=None).sentences
    assert said == ("A GPU of slurm:1 does little. The same on 2 more of its GPUs.",)
    part = finding("uses-part") | {"sentence": "slurm:1 uses 1 of 4 GPUs."}
    said = changes([job()], [], [*idle, part], WHOLE, name=None).sentences
    assert said == ("slurm:1 uses 1 of 4 GPUs.",), "which names the GPUs that do nothing"


def test_what_recurs_stands_before_findings_and_instead_of_nothing() -> None:
    habit = "Your terminals and notebooks were idle 7 times."
    assert changes([job()], [], [], WHOLE, name=None).sentences == (NOTHING,)
    assert changes([job()], [], [], WHOLE, name=None, habits=[habit]).sentences == (habit,)
    found = changes([job()], [], [finding()], WHOLE, name=None, habits=[habit])
    assert found.sentences == (habit, "A GPU of slurm:1 does little.")


def test_the_owner_of_an_idle_job_reads_how_it_makes_way_once() -> None:
    idle = {
        "class": "reclaim",
        "job": "fallow:7",
        "what": "Tell ada that fit is idle",
        "why": "ada has held GPU 0 of a for 3 h.",
        "steps": [{"verb": "notify"}],
    }
    held_idle = [finding("held-idle", "fallow:7"), finding("held-idle", "slurm:1")]
    found = changes([job("fallow:7"), job()], [idle], held_idle, WHOLE | {"fallow:7": 1.0}, name=None)
    first, second = found.sentences
    assert first == (
        "ada has held GPU 0 of a for 3 h. Ending it when it is done, or stopping it until it is needed "
        "again, gives its GPUs back."
    )
    assert second == "A GPU of slurm:1 does little."
    assert found.commands == ("fallow pause fallow:7",)


def test_an_idle_job_is_named_where_no_finding_does() -> None:
    said = {**advice(), "class": "reclaim", "why": "It has done nothing for 2.5 h."}
    first, *_ = changes([job()], [said], [], WHOLE, name=None).sentences
    assert first.startswith("fit (slurm:1) has done nothing for 2.5 h. Ending it")


def test_one_gpu_is_no_gpus() -> None:
    first, *_ = changes([job(wasted=4.0, gpus=1)], [], [], WHOLE, name=None).sentences
    assert "on 1 GPU; " in first


def test_where_nothing_is_advised_the_largest_waste_is_told_and_how_it_may_have_come() -> None:
    found = changes([job(wasted=4.0), job("slurm:2", wasted=6.0)], [], [], WHOLE, name=None)
    assert [line.split(" held")[0] for line in found.sentences[:2]] == ["fit (slurm:2)", "fit (slurm:1)"]
    assert "or for you?" in found.sentences[2]
    third = changes([job(wasted=4.0)], [], [], WHOLE, name="ada").sentences[-1]
    assert "or for ada?" in third and "you" not in third


@pytest.mark.parametrize("measured", [{}, {"slurm:1": 0.94}, {"slurm:1": 0.0}])
def test_a_job_that_was_not_measured_is_not_judged(measured: Mapping[str, float]) -> None:
    found = changes([job(wasted=9.0)], [], [], measured, name=None)
    (line,) = found.sentences
    assert line.startswith("Of fit (slurm:1) only") and line.endswith("was measured: it is not judged.")
    assert "nothing" not in line


def test_nothing_to_change_is_said_so() -> None:
    assert changes([job(wasted=0.1)], [], [], WHOLE, name=None).sentences == (NOTHING,)


def test_the_opening_thanks_and_does_not_praise_what_was_not_seen() -> None:
    assert told_held(held(), None).endswith("Next to nothing was wasted: thank you.")
    assert told_held(held(wasted=5.0), None).endswith("did nothing at all.")
    dark = told_held(held(wasted=5.0, measured=0.5), None)
    assert "thank" not in dark and "did nothing" not in dark and "was measured" in dark
    assert told_held(held(), "ada").startswith("One job of ada held")
    assert told_held(held_of([], utilization=None, measured=None), "ada") == "ada held no GPU in this time."
    assert told_held(held_of([], utilization=None, measured=None), None) == "You held no GPU in this time."


def test_an_upper_bound_is_said_and_not_praised() -> None:
    bound = held_of([job(rung=1), job("slurm:2", rung=3)], utilization=0.5, measured=1.0)
    said = told_held(bound, None)
    assert "used at most 10.0 GPU-hours of them" in said and "thank" not in said and "some kernel ran" in said
    measured = held_of([job(rung=3)], utilization=0.5, measured=1.0)
    assert told_held(measured, None).endswith(
        "used 5.0 GPU-hours of them. Next to nothing was wasted: thank you."
    )


def test_cells_that_hold_nothing_count_nothing() -> None:
    row = job() | {"gpu_hours": float("nan"), "wasted_gpu_hours": None, "used_gpu_hours": None}
    assert held_of([row], utilization=None, measured=None).held_gpu_hours == 0.0
    assert changes([row], [], [], {}, name=None).sentences == (NOTHING,)


def test_how_much_of_a_job_is_known() -> None:
    rows = [
        {"key": "slurm:1", "gpu_hours": 4.0, "unknown_gpu_hours": 1.0},
        {"key": None, "gpu_hours": 4.0, "unknown_gpu_hours": 4.0},
        {"key": "slurm:2", "gpu_hours": 0.0, "unknown_gpu_hours": 0.0},
    ]
    assert measured_of(rows) == {"slurm:1": 0.75}
