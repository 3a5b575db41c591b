"""What the acting routes answer becomes typed values; what is missing stays unknown."""

from datetime import UTC, datetime

import pytest

from service.charts.bars import wanted_and_held
from service.pages.data.jobs import asked_gpus, jobs_frame, leases_frame, matching, queue_frame
from service.pages.submitted_jobs import Recent, unlisted
from service.schemas.answer import read
from service.schemas.control import Gain, Lease, Plan, Switch, Waiting
from service.schemas.records import Action, Job, JobDetail, instant

AT_MS = 1_795_000_000_000
AT = datetime.fromtimestamp(AT_MS / 1000, UTC)


def waiting(job: str, place: int, **more: object) -> Waiting:
    row = {"job": job, "name": f"n{place}", "user": "ada", "project": "vision", "gpus": 2, "place": place}
    return read(Waiting, {**row, "waits_for": "2 GPUs", "since_ms": AT_MS, "promised_ms": None, **more})


def test_the_queue_is_in_order_of_place_and_an_unpromised_start_is_unknown() -> None:
    frame = queue_frame([waiting("fallow:2", 2), waiting("fallow:1", 1, promised_ms=AT_MS + 60_000)])
    assert list(frame["job"]) == ["fallow:1", "fallow:2"]
    assert (frame["promised"].iloc[0] - frame["since"].iloc[0]).total_seconds() == 60
    assert frame["promised"].isna().tolist() == [False, True]


def test_an_empty_answer_has_its_columns_all_the_same() -> None:
    queue, leases, jobs = queue_frame([]), leases_frame([]), jobs_frame([])
    assert {"since", "promised", "waits_for"} <= set(queue)
    assert {"since", "share"} <= set(leases)
    assert {"submitted", "held", "state"} <= set(jobs)
    assert wanted_and_held(queue, leases).empty


def test_a_job_is_found_by_any_of_its_words_and_filters_narrow() -> None:
    frame = queue_frame(
        [waiting("fallow:1", 1), waiting("fallow:2", 2, user="bo"), waiting("fallow:3", 3, project=None)]
    )
    assert list(matching(frame, "BO")["job"]) == ["fallow:2"]
    assert list(matching(frame, "fallow:3")["job"]) == ["fallow:3"]
    assert list(matching(frame, "n[")["job"]) == []
    assert list(matching(frame, None, user="ada", project="vision")["job"]) == ["fallow:1"]


def test_held_and_wanted_are_counted_by_project_in_gpus() -> None:
    queue = queue_frame([waiting("fallow:1", 1), waiting("fallow:2", 2, project=None, gpus=0.5)])
    leases = leases_frame(
        [Lease(job="fallow:9", project="vision", gpu=f"GPU-{i}", share=0.5) for i in range(3)]
    )
    frame = wanted_and_held(queue, leases).set_index(["project", "kind"])["gpus"]
    assert frame["vision", "held through Fallow"] == 1.5
    assert frame["vision", "wanted"] == 2
    assert frame["no project", "wanted"] == 0.5


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ((1, 4, 1.0), "1-4"),
        ((2, 2, 1.0), "2"),
        ((1, 1, 0.5), "0.5"),
        ((2, 2, 0.5), "2x0.5"),
        ((None, None, None), "\u2013"),
    ],
)
def test_gpus_asked_for_are_written_as_they_are_typed(asked, written) -> None:
    assert asked_gpus(*asked) == written


def test_a_job_is_read_whole_and_what_is_left_out_is_not_known() -> None:
    job = read(
        JobDetail,
        {
            "job": "fallow:7",
            "state": "running",
            "submission": {"command": ["python", "t.py"], "user": "ada", "project": "vision", "min_gpus": 1},
            "gpus": ["GPU-a"],
            "submitted_ms": AT_MS,
            "directives": [
                {
                    "number": 4,
                    "verb": "start",
                    "directive": {"number": 4, "is": "Start", "gpus": ["GPU-a"]},
                    "given_ms": AT_MS,
                    "acknowledged_ms": None,
                }
            ],
            "actions": [{"action": 4, "at_ms": AT_MS, "job": "fallow:7", "verb": "start", "actor": "fallow"}],
        },
    )
    assert job.submission.command == ("python", "t.py")
    assert instant(job.submitted_ms) == AT
    assert job.directives[0].verb == "start"
    assert job.directives[0].acknowledged_ms is None
    assert job.directives[0].directive is not None
    assert job.directives[0].directive.is_ == "Start"
    assert job.actions[0].outcome is None
    assert job.last_seen_ms is None
    assert job.submission.memory_bytes is None
    bare = read(Job, {"job": "fallow:8"})
    assert (bare.state, bare.gpus, bare.submission.user) == ("unknown", (), None)


def test_a_plan_keeps_its_steps_evidence_and_refusals() -> None:
    plan = read(
        Plan,
        {
            "plan": 3,
            "as_of_ms": AT_MS,
            "state": "waiting",
            "steps": [
                {
                    "n": 1,
                    "verb": "pause",
                    "job": "fallow:7",
                    "gpus": ["GPU-a"],
                    "sentence": "Pause it",
                    "reason": "idle for 2 h",
                    "mode": "ask",
                    "expected_gain": {"gpu_hours": 3.5, "horizon_s": None},
                    "evidence": {"idle_s": 7200},
                }
            ],
            "refused": [
                {
                    "job": "slurm:1",
                    "action": "reclaim",
                    "rule": "kept",
                    "reason": "kept",
                    "would_change": "time",
                }
            ],
        },
    )
    assert plan.steps[0].evidence == {"idle_s": 7200}
    gain = plan.steps[0].expected_gain
    assert isinstance(gain, Gain) and gain.gpu_hours == 3.5
    assert plan.refused[0].would_change == "time"


def test_an_action_that_is_still_being_done_has_no_outcome_and_the_switch_says_who() -> None:
    action = read(Action, {"action": 9, "at_ms": AT_MS, "job": "j", "verb": "pause", "actor": "user ada"})
    assert action.outcome is None
    assert action.undo is None
    switch = read(
        Switch, {"acting": False, "by": "root", "at_ms": AT_MS, "because": "maintenance", "modes": None}
    )
    assert (switch.acting, switch.by, instant(switch.at_ms), switch.modes) == (False, "root", AT, {})


def test_a_list_of_jobs_that_was_cut_says_so() -> None:
    jobs = jobs_frame(
        read(Job, {"job": f"fallow:{at}", "state": state, "submission": {}})
        for at, state in ((1, "running"), (2, "ended"))
    )
    whole = Recent(jobs=jobs, of_live=1, of_all=2)
    assert unlisted(whole, ended=True) is None
    assert unlisted(whole, ended=False) is None
    cut = Recent(jobs=jobs, of_live=4, of_all=9)
    assert "3 older ones that have not ended are not listed" in str(unlisted(cut, ended=False))
    assert "7 older ones are not listed" in str(unlisted(cut, ended=True))
