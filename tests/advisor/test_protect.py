"""What a site protects, matched to what is there."""

from dataclasses import replace

import pytest

from advisor.state.site_protection import Protect, with_protection
from collector.model import GpuUuid
from tests.advisor.policies.scene import cluster, job

STATE = cluster([(replace(job("slurm:7"), name="demo-1"), ("g0",)), (replace(job("b"), user="bob"), ("g1",))])
PLACES = {GpuUuid(f"g{at}"): f"n1:{at}" for at in range(8)}


def protected(protect: Protect) -> tuple[set[str], set[str]]:
    state = with_protection(STATE, protect, PLACES)
    return (
        {id for id, each in state.jobs.items() if each.protected},
        {id for id, each in state.gpus.items() if each.protected},
    )


@pytest.mark.parametrize(
    ("protect", "jobs", "gpus"),
    [
        (Protect(), set(), set()),
        (Protect(users=frozenset({"bob"})), {"b"}, set()),
        (Protect(jobs=("slurm:*",)), {"slurm:7"}, set()),
        (Protect(jobs=("demo-?",)), {"slurm:7"}, set()),
        (Protect(jobs=("demo",)), set(), set()),
        (Protect(gpus=frozenset({"g1"})), {"b"}, {"g1"}),
        (Protect(gpus=frozenset({"n1:0"})), {"slurm:7"}, {"g0"}),
        (Protect(gpus=frozenset({"n1/5"})), set(), {"g5"}),
        (Protect(gpus=frozenset({"n2:0", "bob"})), set(), set()),
    ],
)
def test_the_sites_words_are_matched_to_what_is_there(
    protect: Protect, jobs: set[str], gpus: set[str]
) -> None:
    assert protected(protect) == (jobs, gpus)


def test_marking_twice_is_marking_once() -> None:
    protect = Protect(users=frozenset({"ann"}), gpus=frozenset({"g1"}))
    once = with_protection(STATE, protect, PLACES)
    assert with_protection(once, protect, PLACES) == once
