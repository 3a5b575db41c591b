"""A gain is of boards: an instance counts as its part of one, a share as a share."""

import pytest

from advisor.planner.limits import Limits, PlannerConfig
from advisor.policies import idle_reclaim, right_size
from tests.advisor.policies.scene import advised, cluster, gpu, idle_job, job, observed, stretch, use

RULES = PlannerConfig(resume_s=0)
LONG = tuple(stretch(6000, user="bob") for _ in range(12))
"""Idle times that outlast every horizon: all of the 4 h are expected to lie idle."""


@pytest.mark.parametrize(
    ("parts", "share", "gpus"),
    [
        ((None,), 1.0, 1.0),
        ((3 / 7,), 1.0, 3 / 7),
        ((3 / 7, 3 / 7), 1.0, 6 / 7),
        ((None,), 0.5, 0.5),
    ],
)
def test_what_an_idle_job_gives_back_is_its_part_of_the_boards(
    parts: tuple[float | None, ...], share: float, gpus: float
) -> None:
    names = tuple(f"g{at}" for at in range(len(parts)))
    there = [gpu(name, part_of_device=part) for name, part in zip(names, parts, strict=True)]
    state = cluster([(idle_job(minutes=150, share=share), names)], gpus=there)
    (advice,) = advised(idle_reclaim.advise(state, observed(stretches=LONG), Limits(), RULES))
    assert advice.gain_gpu_hours == pytest.approx(4.0 * gpus)
    assert advice.gain_money == pytest.approx(4.0 * gpus * 3.0)


def test_fewer_instances_save_their_part_of_a_board() -> None:
    """Two instances of 2/7 for a day, of which one never computed: 24 h of 2/7 of a board."""
    there = [gpu(name, part_of_device=2 / 7) for name in ("g0", "g1")]
    state = cluster([(job("two"), ("g0", "g1"))], gpus=there)
    seen = use("two", held_gpu_hours=48.0, gpus_used=1)
    (advice,) = advised(right_size.advise(state, observed(seen), Limits(), RULES))
    assert advice.gain_gpu_hours == pytest.approx(24 * 2 / 7)
