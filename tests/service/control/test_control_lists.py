"""What the desk lists: the newest jobs first, the queue in its order, and no more than was asked for."""

from pathlib import Path

from advisor.jobs.model import JobState
from collector.model import JobId
from service.control.interface import Which
from tests.service.control.control_world import ANNA, BO, ROOT, Stage, stage, wanted

TOO_MANY = {"min_gpus": 9, "max_gpus": 9}


def submit(there: Stage, name: str, caller: object = ANNA, **asked: object) -> str:
    return str(there.desk.submit(caller, wanted(name=name, nonce=name, **TOO_MANY, **asked))[0]["job"])


def names(rows: list[dict[str, object]]) -> list[str]:
    return [str(row["name"]) for row in rows]


def test_jobs_are_listed_the_newest_first_and_so_many_as_asked_for(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        for name in ("a", "b", "c", "d"):
            submit(there, name, caller=BO if name == "c" else ANNA)

        def listed(**asked: object) -> list[str]:
            limit = int(str(asked.pop("limit", 10)))
            return names(there.desk.jobs(ROOT, Which(**asked), limit).rows)

        assert listed() == ["d", "c", "b", "a"]
        assert listed(limit=2) == ["d", "c"]
        assert listed(user="anna", limit=2) == ["d", "b"]
        there.desk.cancel(ANNA, JobId("fallow:4"), "")
        assert listed(state=JobState.PENDING, limit=1) == ["c"]
        assert listed(state=JobState.ENDED) == listed(ended=True) == ["d"]
        assert listed(ended=False, limit=1) == ["c"], "what has ended takes nobody's place in the list"
        assert there.desk.jobs(ROOT, Which(ended=False), 1).total == 3


def test_the_queue_is_as_the_last_cycle_left_it_and_who_came_since_stands_behind(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        first = submit(there, "first")
        urgent = submit(there, "urgent", priority=5)
        assert [row["place"] for row in there.desk.queue(ROOT, 10).rows] == [1, 2]
        assert names(there.desk.queue(ROOT, 10).rows) == ["first", "urgent"], "nobody has looked yet"
        there.acting.loop.cycle()
        late = submit(there, "late")
        rows = there.desk.queue(ROOT, 10).rows
        assert names(rows) == ["urgent", "first", "late"]
        assert [row["place"] for row in rows] == [1, 2, 3]
        assert "9 GPUs of one kind" in rows[0]["waits_for"] and "next look" in rows[2]["waits_for"]
        assert names(there.desk.queue(ROOT, 2).rows) == ["urgent", "first"]
        assert there.desk.queue(ROOT, 2).total == 3
        there.desk.cancel(ANNA, JobId(urgent), "")
        assert [(row["job"], row["place"]) for row in there.desk.queue(ROOT, 10).rows] == [
            (first, 2),
            (late, 3),
        ]
        said = " ".join(there.desk.job(ROOT, JobId(late))["explain"])
        assert "It is number 3 of 3 in the queue and waits for: the next look" in said
        assert "in the queue" not in " ".join(there.desk.job(ROOT, JobId(urgent))["explain"])
