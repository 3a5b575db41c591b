"""A promised start outlives a restart of the service, and nobody borrows it before its launcher is back."""

from pathlib import Path

import pytest

from collector.model import JobId
from tests.service.control.control_world import ANNA, ROOT, Stage, StandIn, stage, until, wanted


def submit(there: Stage, name: str, **asked: object) -> str:
    return str(there.desk.submit(ANNA, wanted(name=name, nonce=name, **asked))[0]["job"])


def promised(there: Stage, job: str) -> int | None:
    at_ms = there.desk.job(ROOT, JobId(job))["promised_ms"]
    return None if at_ms is None else int(at_ms)


@pytest.mark.slow
def test_a_promise_outlives_a_restart_and_is_not_borrowed_while_its_launcher_is_away(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        long = submit(there, "long", min_gpus=3, max_gpus=3, limit_s=3600.0)
        first = StandIn(there.desk, ANNA, long)
        until("it runs", lambda: there.state(long) == "running")
        head = submit(there, "head", min_gpus=4, max_gpus=4)
        StandIn(there.desk, ANNA, head)
        before_ms = until("it is promised a start", lambda: promised(there, head))
    with stage(tmp_path) as again:
        back = StandIn(again.desk, ANNA, long, after=first.handled)
        back.state, back.gpus = first.state, first.gpus
        back.say()
        rival = submit(again, "rival")
        eager = StandIn(again.desk, ANNA, rival)
        until(
            "the rival was looked at",
            lambda: eager.places and "next look" not in eager.places[-1]["waits_for"],
        )
        for _ in range(3):
            again.acting.loop.cycle()
        assert again.state(rival) == "pending", "the free GPU is promised to the head"
        StandIn(again.desk, ANNA, head)
        until("the head is in line", lambda: "promised" in again.desk.queue(ROOT, 1).rows[0]["waits_for"])
        assert promised(again, head) == before_ms
        back.finish()
        until("the head runs", lambda: again.state(head) == "running")
