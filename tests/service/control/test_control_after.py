"""A job that starts after another: what its owner reads meanwhile, when it starts, and when it never will."""

from pathlib import Path

import pytest

from collector.model import JobId
from service.control.errors import BadOrder
from tests.service.control.control_world import ANNA, ROOT, StandIn, stage, until, wanted


@pytest.mark.slow
def test_a_job_starts_when_the_one_before_it_has_ended_well(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        with pytest.raises(BadOrder, match="--after fallow:9"):
            there.desk.submit(ANNA, wanted(nonce="x", after=(JobId("fallow:9"),)))
        first = str(there.desk.submit(ANNA, wanted(nonce="a"))[0]["job"])
        running = StandIn(there.desk, ANNA, first)
        until("it runs", lambda: there.state(first) == "running")
        jobs = [
            str(there.desk.submit(ANNA, wanted(nonce=nonce, after=(JobId(before),)))[0]["job"])
            for nonce, before in (("b", first), ("c", "fallow:2"))
        ]
        middle, last = (StandIn(there.desk, ANNA, job) for job in jobs)
        until(
            "it is told", lambda: f"it starts after {first}" in there.desk.queue(ROOT, 9).rows[0]["waits_for"]
        )
        assert [there.state(job) for job in jobs] == ["pending", "pending"], "three GPUs are free"
        running.finish()
        until("the next one runs", lambda: there.state(jobs[0]) == "running")
        middle.finish(code=3)
        until("it has ended", lambda: there.state(jobs[0]) == "ended")
        until(
            "the last is told that it never will",
            lambda: (
                f"after {jobs[0]}, which did not end well" in there.desk.queue(ROOT, 9).rows[0]["waits_for"]
            ),
        )
        assert there.state(jobs[1]) == "pending"
        with pytest.raises(BadOrder, match="has ended already, and not well"):
            there.desk.submit(ANNA, wanted(nonce="d", after=(JobId(jobs[0]),)))
        last.close()
