"""``fallow tell``: one message to an owner, of what is found of their job now; or why there is none."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from service.cli import main, tell
from service.summaries.message_to_owner import Said, message

IDLE = "ana (job train) has held GPU 0 of n1 since 09:00, and its processes have done nothing on it for 3 h."


def row(job: str, kind: str = "held-idle", **other: object) -> dict[str, object]:
    given = {"job": job, "job_name": "train", "user_name": "ana", "kind": kind, "uuid": "GPU-0"}
    return {**given, "sentence": IDLE, **other}


class Answers:
    """A client that knows these findings, of these jobs."""

    def __init__(
        self, rows: list[dict[str, object]], judged: bool = True, jobs: tuple[str, ...] = ()
    ) -> None:
        self._rows, self._judged, self._jobs = rows, judged, jobs

    def rows(self, name: str, **params: object) -> list[dict[str, object]]:
        if name == "manager_runs":
            return []
        if name == "jobs":
            return [{"job": each} for each in self._jobs]
        assert name == "findings" and params["open"] is True
        return self._rows

    def rows_if_kept(self, name: str, **params: object) -> list[dict[str, object]]:
        if name == "accounted_runs":
            return []
        assert name == "judgement"
        return [{"judged_at": "2100-01-01T00:00:00Z"}] if self._judged else []


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path):  # type: ignore[no-untyped-def]
    def run(
        rows: list[dict[str, object]], *words: str, judged: bool = True, jobs: tuple[str, ...] = ()
    ) -> tuple[int, str]:
        @contextmanager
        def client(_: object) -> Iterator[Answers]:
            yield Answers(rows, judged, jobs)

        monkeypatch.setattr(tell, "asked", client)
        status = main(["tell", *words, "--data", str(tmp_path)])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def test_a_message_says_what_was_found_what_helps_and_how_to_object() -> None:
    assert message("ana", "slurm:7", "train", [Said("held-idle", IDLE)], job_kind="batch") == (
        "Hello ana,\n\nabout your job train (slurm:7):\n\n"
        f"- {IDLE}\n\nWhat would help:\n"
        "- end the job, or keep it with `fallow keep slurm:7`\n\n"
        "Should it stay as it is, write back, or type `fallow keep slurm:7`, and nobody is told of it for a "
        "while.\nIf this is wrong, write back too: what is measured may not be all that the job does."
    )


def test_whose_name_nobody_knows_is_greeted_without_one() -> None:
    assert message(None, "pod:a", None, [Said("held-idle", IDLE)], job_kind=None).startswith(
        "Hello,\n\nabout your job pod:a:"
    )


@pytest.mark.parametrize(
    ("job_kind", "helps"),
    [
        ("inference", "- scale it to zero between requests"),
        ("interactive", "- end it, or shut the notebook's kernel down"),
        (
            None,
            "- end the job, or keep it with `fallow keep pod:a`; a notebook's kernel can",
        ),
    ],
)
def test_what_helps_is_of_the_jobs_kind(job_kind: str | None, helps: str) -> None:
    written = message("ana", "pod:a", None, [Said("held-idle", IDLE)], job_kind=job_kind)
    assert helps in written and ("end the job" in written) == (job_kind is None)


def test_one_job_by_id_or_name_whatever_was_found_of_it(typed) -> None:  # type: ignore[no-untyped-def]
    rows = [row("slurm:7"), row("slurm:7", "memory-hog", sentence="It hogs."), row("slurm:8", job_name="b")]
    for name in ("slurm:7", "train"):
        status, said = typed(rows, name)
        assert status == 0 and IDLE in said and "- It hogs." in said and "slurm:8" not in said
    status, said = typed(rows, "b", "--json")
    assert [json.loads(said)[0][key] for key in ("job", "user")] == ["slurm:8", "ana"]


def test_all_gpus_of_the_job_are_told_with_their_sum(typed) -> None:  # type: ignore[no-untyped-def]
    """Four GPUs of 3.0 GPU-hours each are 12.0, each once; without all hours there is no sum."""
    rows = [row("slurm:7", uuid=f"GPU-{n}", judged_gpu_hours=3.0) for n in range(4)]
    status, said = typed(rows, "slurm:7")
    assert status == 0
    assert f"- {IDLE} The same on 3 more of its GPUs, 12.0 GPU-hours in all.\n" in said
    _, said = typed([*rows, row("slurm:7", uuid="GPU-9", judged_gpu_hours=None)], "slurm:7")
    assert f"- {IDLE} The same on 4 more of its GPUs.\n" in said
    hogs = [{**each, "kind": "memory-hog", "judged_gpu_hours": 3.0} for each in rows]
    _, said = typed(hogs, "slurm:7")
    assert f"- {IDLE} The same on 3 more of its GPUs.\n" in said, "its sentence says no hours"


def test_two_jobs_of_one_name_are_not_mixed(typed) -> None:  # type: ignore[no-untyped-def]
    status, said = typed([row("slurm:7"), row("slurm:8")], "train")
    assert status == 2 and "2 jobs are called 'train'; name one by its id: slurm:7, slurm:8" in said


@pytest.mark.parametrize("kind", ["zombie-memory", "falling-gpu", "intruder", "suspect-counters"])
def test_nobody_is_written_to_about_a_fault_or_a_stranger(typed, kind: str) -> None:  # type: ignore[no-untyped-def]
    status, said = typed([row("slurm:7", kind)], "slurm:7")
    assert status == 2 and "nothing is found of it now" in said


def test_a_number_that_two_clusters_gave_out_asks_whose_though_one_alone_is_idle(typed) -> None:  # type: ignore[no-untyped-def]
    idle, both = row("slurm:42@west"), ("slurm:42@east", "slurm:42@west", "slurm:43@east")
    status, said = typed([idle], "42", jobs=both)
    assert status == 2 and "2 jobs are called '42'; name one by its id: slurm:42@east, slurm:42@west" in said
    for named, jobs in (("slurm:42@west", both), ("42@west", both), ("42", both[1:])):
        status, said = typed([idle], named, jobs=jobs)
        assert status == 0 and "about your job" in said


def test_before_the_first_judgement_that_is_said(typed) -> None:  # type: ignore[no-untyped-def]
    status, said = typed([], "slurm:7", judged=False)
    assert status == 2 and "nothing was judged yet" in said


def test_what_to_do_is_of_what_was_found_where_that_is_told() -> None:
    """Who waits for a lost GPU is not told to end the job."""
    evidence = '{"lost_gpu": "GPU 1 of n1", "lost_gpu_error": "XID 79: GPU has fallen off the bus"}'
    written = message("ana", "slurm:7", None, [Said("held-idle", IDLE, evidence)], job_kind="batch")
    assert "GPU 1 of n1 failed (XID 79: GPU has fallen off the bus); start the job again" in written
    assert "end the job" not in written
