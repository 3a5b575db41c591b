"""``fallow job`` of an id that two people used: each one's own, and the other one's named."""

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from analytics.vocabulary.jobs import bare_id, is_called, told_id
from collector.arrow import HeldInterval
from collector.model import Allocation, Holder, JobId
from service.cli import accounted, job
from service.cli.explain import NothingOfThatName, _called
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


@pytest.mark.parametrize(
    ("job", "bare"),
    [
        ("slurm:601@a", "slurm:601"),
        ("slurm:601@a@1772438100", "slurm:601"),
        ("pod:ns/train@b", "pod:ns/train"),
        ("slurm:500@1772438100", "slurm:500"),
        ("pid:n1/42@1772438100123", "pid:n1/42@1772438100123"),
        ("fallow:7", "fallow:7"),
    ],
)
def test_the_id_in_its_own_cluster(job: str, bare: str) -> None:
    assert bare_id(job) == bare


def test_what_is_typed_in_a_cluster_may_mean_the_job_of_each_that_has_one() -> None:
    assert is_called("slurm:601@a", None, ("601", "slurm:601"))
    assert is_called("pod:ns/train@b", "train@b", ("train",))
    assert is_called("pod:ns/train@b", "train@b", ("train@b",))
    assert not is_called("pod:ns/train@b", "train@b", ("train@a",))
    assert not is_called("fallow:7", None, ("7", "slurm:7"))


def row(job: str, **more: object) -> Any:
    return {
        "job": job,
        "job_name": None,
        "user_name": "xan",
        "from_ts": "2026-11-26T08:00:00+00:00",
        "to_ts": None,
    } | more


def named(typed: str, *rows: Any, runs: tuple[Any, ...] = ()) -> str | None:
    found = job._named(list(rows), argparse.Namespace(job=typed, since="1d"), runs)
    return None if found is None else str(found["job"])


def run(cluster: str, user: str, ended_at: str = "2026-11-26T17:39:00+00:00") -> Any:
    given = {"job": "slurm:501", "cluster": cluster, "user_name": user, "started_at": None}
    return given | {"submitted_at": "2026-11-26T12:33:00+00:00", "ended_at": ended_at}


def test_a_number_finds_the_measured_job_whose_labels_name_its_cluster() -> None:
    """The accounting has number 501 in two clusters, xan's in b was measured: that one, not "nobody kept"."""
    accounting = [run("a", "other"), run("b", "xan")]
    assert named("501", row("slurm:501@b"), runs=tuple(accounting)) == "slurm:501@b"
    assert named("601", row("slurm:601@a"), row("slurm:601"), runs=()) == "slurm:601"
    with pytest.raises(job.NoSuchJob, match=r"2 jobs are called '601'.*: slurm:601@a, slurm:601@b"):
        named("601", row("slurm:601@a"), row("slurm:601@b"))
    with pytest.raises(job.NoSuchJob, match=r"2 jobs are called 'tr'.*: pod:n/tr@a, pod:n/tr@b"):
        named("tr", row("pod:n/tr@a", job_name="tr@a"), row("pod:n/tr@b", job_name="tr@b"))


def test_the_accountings_job_of_the_other_cluster_is_named_below() -> None:
    accounting = [run("a", "other"), run("b", "xan"), run("a", "other")]
    (line,) = job._others_of(row("slurm:501@b"), [row("slurm:501@b")], accounting)
    assert line.startswith("other had a job of this id in cluster a, from 2026-11-26 12:33 to ")
    assert line.endswith(": nobody measured it")
    assert job._others_of(row("slurm:501@a"), [row("slurm:501@b")], accounting)[0].endswith("slurm:501@b`")
    assert job._others_of(row("slurm:501"), [], accounting) == []  # one cluster: its own number


def test_the_runs_of_an_id_are_those_of_its_cluster() -> None:
    accounting = [run("a", "other"), run("b", "xan"), run("a", "other")]
    assert [each["cluster"] for each in accounted.runs_of("slurm:501@b", accounting)] == ["b"]
    assert [each["cluster"] for each in accounted.runs_of("slurm:501", accounting)] == ["a", "a"]


def test_explain_says_which_jobs_of_a_name_run() -> None:
    jobs = {f"pod:n/tr@{each}": SimpleNamespace(name=f"tr@{each}") for each in "ab"}
    places = {f"gpu-1@{each}:0": each for each in "ab"} | {"gpu-2:0": "c"}
    state = SimpleNamespace(state=SimpleNamespace(jobs=jobs))
    desk = cast("Any", SimpleNamespace(said=state, places=places))
    with pytest.raises(NothingOfThatName, match=r"2 jobs are called 'tr'.*: pod:n/tr@a, pod:n/tr@b"):
        _called(desk, "tr", ("fallow:tr", "tr"))
    assert _called(desk, "tr@a", ("tr@a",)) == ("pod:n/tr@a",)
    assert _called(desk, "sleep", ("sleep",)) == ()
    with pytest.raises(NothingOfThatName, match=r"with its cluster: gpu-1@a:0, gpu-1@b:0"):
        _called(desk, "gpu-1:0", ("gpu-1:0",))
