"""``fallow job`` of an id that two people used: each one's own, and the other one's named."""

from pathlib import Path

import pytest

from analytics.vocabulary.jobs import told_id
from collector.arrow import HeldInterval
from collector.model import Allocation, Holder, JobId
from tests.collector.store.store_parts import T0, at_path, history, sample, uuid
from tests.service.conftest import verb
from tests.stores import open_store

HOUR_MS = 3_600_000
SECOND = (T0 + 2 * HOUR_MS) // 1000
ROWS = 300
"""Five hours of minutes: yara has the first, zeno the third and fourth."""


@pytest.fixture
def two_people(tmp_path: Path) -> Path:
    def hold(user: str, from_h: int, to_h: int) -> HeldInterval:
        holder = Holder(job=JobId("slurm:500"), user=user)
        return HeldInterval(
            allocation=Allocation(uuid=uuid(0), holder=holder),
            from_ms=T0 + from_h * HOUR_MS,
            to_ms=T0 + to_h * HOUR_MS,
        )

    rows = [sample(0, T0 + n * 60_000, 0.5, width_ms=60_000) for n in range(1, ROWS + 1)]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, [hold("yara", 0, 1), hold("zeno", 2, 4)]))
    return tmp_path


def said(data: Path, job: str, since: str = "2026-09-20") -> str:
    return verb("job", job, "--since", since, "--until", "2026-09-22", data=data).stdout


@pytest.mark.slow
def test_the_other_persons_job_of_the_same_id_is_named(two_people: Path) -> None:
    first = said(two_people, "slurm:500")
    assert first.startswith("slurm:500 · yara")
    assert "zeno had a job of this id too, from 2026-09-21 16:00 to 2026-09-21 18:00: " in first
    assert f"`fallow job slurm:500@{SECOND}`" in first
    second = said(two_people, f"slurm:500@{SECOND}")
    assert second.startswith(f"slurm:500@{SECOND} · zeno")
    assert "yara had a job of this id too, from 2026-09-21 14:00" in second


@pytest.mark.slow
def test_who_used_an_id_again_is_found_by_it_alone(two_people: Path) -> None:
    assert said(two_people, "slurm:500", "2026-09-21T15:30").startswith(f"slurm:500@{SECOND} · zeno")


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ("pod:ns/train@1772438100", "pod:ns/train"),
        ("slurm:500", "slurm:500"),
        ("pid:n1/42@1772438100123", "pid:n1/42@1772438100123"),  # its own start, in ms
        ("k8s:a@b", "k8s:a@b"),
    ],
)
def test_the_id_as_its_source_tells_it(job: str, told: str) -> None:
    assert told_id(job) == told
