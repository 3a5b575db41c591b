"""What actions did give back: deeds that the journal itself wrote, on histories that can be counted on paper.

All times are minutes after noon; the window is three hours. An H100-hour costs 4 EUR.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Cancel, Move, Pause, ReleaseMemory, Requeue, Resize, SetEnvAtRestart
from advisor.outcomes import Failed, Late, Stale
from advisor.state.model import ActionClass
from analytics.query import run
from collector.model import JobId
from collector.store.database import Store
from service.summaries.savings import BY_PEOPLE, Saving, judged
from tests.analytics.given_world import END, A, B, C, D, Held, deed, past
from tests.analytics.world import GIB, NOON

OWN, SECOND, THIRD = (JobId(f"fallow:{n}") for n in (1, 2, 3))


def asked(store: Store, begin: int = 0, end: int = END) -> list[dict[str, Any]]:
    window = {"from_ts": NOON + timedelta(minutes=begin), "to_ts": NOON + timedelta(minutes=end)}
    with store.reader() as reader:
        return run(reader, "given_back", window).to_pylist()


def minutes(row: dict[str, Any]) -> tuple[float, float, float, float]:
    """Due, freed, held by others and worked by others, in GPU-minutes."""
    names = ("due_gpu_hours", "freed_gpu_hours", "held_gpu_hours", "worked_gpu_hours")
    due, freed, held, worked = (round(row[name] * 60, 6) for name in names)
    return due, freed, held, worked


def pause(job: JobId = OWN, action: ActionClass = ActionClass.RECLAIM, for_job: JobId | None = None) -> Pause:
    return Pause(job=job, action=action, for_job=for_job, reason="idle")


IDLE_THEN_OTHERS: Sequence[Held] = (
    (A, OWN, 0, 10),
    (A, SECOND, 15, 45),
    (B, OWN, 50, None),
)
"""The owner's job on A is paused at 10; another has A from 15 to 45; the first goes on at 50, on B."""


def test_a_pause_gave_back_what_another_job_worked_until_the_first_went_on(tmp_path: Path) -> None:
    with past(tmp_path, IDLE_THEN_OTHERS, busy=[(A, 15, 35)]) as store:
        number = deed(store, 10, pause(), [A])
        (row,) = asked(store)
    assert (row["intent"], row["class"], row["verb"], row["gpus"]) == (number, "reclaim", "pause", 1)
    assert (row["job"], row["user_name"], row["project"]) == ("fallow:1", "user-of-1", "vision")
    assert minutes(row) == (40, 40, 30, 20)
    assert row["known_gpu_hours"] == row["due_gpu_hours"]
    assert (row["worked_cost"], row["currency"]) == (pytest.approx(20 / 60 * 4), "EUR")


def test_a_gpu_that_nobody_took_gave_nothing_back(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, 10)]) as store:
        deed(store, 10, Requeue(job=OWN, action=ActionClass.RECLAIM), [A])
        (row,) = asked(store)
    assert minutes(row) == (170, 170, 0, 0)
    assert row["worked_cost"] == 0


def test_only_the_window_counts(tmp_path: Path) -> None:
    with past(tmp_path, IDLE_THEN_OTHERS, busy=[(A, 15, 35)]) as store:
        deed(store, 10, pause(), [A])
        (row,) = asked(store, 30, 40)
        assert minutes(row) == (10, 10, 10, 5)
        assert asked(store, 60, END) == [], "it was over by then"
        assert asked(store, 0, 5) == [], "it was not done yet"


def test_it_ends_with_its_job(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, 10), (A, SECOND, 20, 100)], busy=[(A, 20, 100)]) as store:
        deed(store, 10, pause(), [A])
        with store.writing("ending a job") as connection:
            connection.execute(
                "INSERT INTO entries "
                "(job, number, nonce, user_name, project, stand, submitted_at, ended_at, body) "
                "VALUES ('fallow:1', 1, 'n', 'u', 'p', 'ended', $at, $at, '{}')",
                {"at": (NOON + timedelta(minutes=60)).replace(tzinfo=None)},
            )
        (row,) = asked(store)
    assert minutes(row) == (50, 50, 40, 40)


def test_processes_on_their_way_out_end_nothing(tmp_path: Path) -> None:
    leaving = [(A, OWN, 0, 10), (A, OWN, 11, 12), (A, SECOND, 20, 80)]
    with past(tmp_path, leaving, busy=[(A, 20, 80)]) as store:
        deed(store, 10, pause(), [A])
        (row,) = asked(store)
    assert minutes(row) == (170, 169, 60, 60), "the minute in which it held the GPU still was not freed"


def test_who_was_there_before_took_nothing(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, 10), (A, SECOND, 0, None)], busy=[(A, 0, END)], share=0.5) as store:
        deed(store, 10, pause(), [A], share=0.5)
        (row,) = asked(store)
    assert minutes(row) == (85, 85, 0, 0)


def test_a_share_gives_back_no_more_than_itself(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, 10), (A, SECOND, 10, 70)], busy=[(A, 10, 70)], share=0.5) as store:
        deed(store, 10, pause(), [A], share=0.5)
        (row,) = asked(store)
    assert minutes(row) == (85, 85, 30, 30)


def test_a_resize_counts_the_gpus_that_it_let_go_of_until_it_grows_again(tmp_path: Path) -> None:
    held = [
        (A, OWN, 0, None),
        (B, OWN, 0, None),
        (C, OWN, 0, 30),
        (D, OWN, 0, 30),
        (C, SECOND, 35, 95),
        (D, OWN, 90, None),
    ]
    with past(tmp_path, held, busy=[(C, 35, 95)]) as store:
        deed(store, 30, Resize(job=OWN, gpus=(A, B)), [A, B, C, D])
        deed(store, 90, Resize(job=OWN, gpus=(A, B, D)), [A, B])
        (row,) = asked(store)
    assert (row["class"], row["gpus"]) == ("resize", 2)
    assert minutes(row) == (120, 120, 55, 55)


def test_a_resize_onto_other_gpus_counts_only_how_many_fewer_they_are(tmp_path: Path) -> None:
    held = [(A, OWN, 0, 30), (B, OWN, 0, 30), (C, OWN, 30, None), (A, SECOND, 30, 90), (B, THIRD, 30, 90)]
    with past(tmp_path, held, busy=[(A, 30, 90), (B, 30, 90)]) as store:
        deed(store, 30, Resize(job=OWN, gpus=(C,)), [A, B])
        (row,) = asked(store)
    assert minutes(row) == (150, 150, 60, 60)


def test_two_halves_that_became_one_freed_one_gpu(tmp_path: Path) -> None:
    held = [(A, OWN, 0, None), (B, SECOND, 0, 20), (A, SECOND, 20, None), (B, THIRD, 25, 100)]
    with past(tmp_path, held, busy=[(A, 0, END), (B, 0, 20), (B, 25, 100)]) as store:
        deed(store, 20, Move(job=OWN, gpus=(A,), share=0.5, action=ActionClass.PACK), [A])
        moved = deed(store, 20, Move(job=SECOND, gpus=(A,), share=0.5, action=ActionClass.PACK), [B])
        (row,) = asked(store)
    assert (row["intent"], row["class"]) == (moved, "pack")
    assert minutes(row) == (160, 160, 75, 75)


@pytest.mark.parametrize("queued", [False, True])
def test_a_pair_that_is_parted_gave_back_until_then_and_parting_gives_nothing(
    tmp_path: Path, queued: bool
) -> None:
    back: list[Held] = [] if queued else [(C, SECOND, 100, None)]
    held = [(A, OWN, 0, None), (B, SECOND, 0, 20), (A, SECOND, 20, 100), (B, THIRD, 25, None), *back]
    with past(tmp_path, held, busy=[(A, 0, END), (B, 0, 20), (B, 25, END)]) as store:
        deed(store, 20, Move(job=OWN, gpus=(A,), share=0.5, action=ActionClass.PACK), [A])
        moved = deed(store, 20, Move(job=SECOND, gpus=(A,), share=0.5, action=ActionClass.PACK), [B])
        parted = Move(job=SECOND, gpus=(C,), share=1.0, action=ActionClass.PACK)
        step = Requeue(job=SECOND, action=ActionClass.PACK) if queued else parted
        deed(store, 100, step, [A], share=0.5)
        deed(store, 100, Move(job=OWN, gpus=(A,), share=1.0, action=ActionClass.PACK), [A], share=0.5)
        (row,) = asked(store)
    assert row["intent"] == moved
    assert minutes(row) == ((160, 160, 155, 155) if queued else (80, 80, 75, 75))


def test_a_move_counts_for_the_gang_that_waited_and_for_nobody_else(tmp_path: Path) -> None:
    held = [(A, OWN, 0, 20), (B, OWN, 20, None), (A, SECOND, 20, 60), (A, THIRD, 60, 120)]
    with past(tmp_path, held, busy=[(A, 20, 120)]) as store:
        deed(store, 20, Move(job=OWN, gpus=(B,), for_job=SECOND), [A])
        (row,) = asked(store)
        assert (row["class"], minutes(row)) == ("consolidate", (160, 160, 40, 40))


def test_a_move_that_nobody_waited_for_counts_nothing(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, 20), (B, OWN, 20, None), (A, SECOND, 20, 60)]) as store:
        deed(store, 20, Move(job=OWN, gpus=(B,)), [A])
        assert asked(store) == []


def test_a_restart_with_less_memory_frees_the_rest_of_its_gpu_while_it_stays(tmp_path: Path) -> None:
    held = [(A, OWN, 0, 120), (A, SECOND, 40, 100)]
    with past(tmp_path, held, busy=[(A, 0, 120)], share=0.5) as store:
        settings = (("TF_FORCE_GPU_ALLOW_GROWTH", "true"),)
        deed(store, 30, SetEnvAtRestart(job=OWN, settings=settings), [A], share=0.5)
        again = deed(store, 30, Move(job=OWN, gpus=(A,), action=ActionClass.CAP_MEMORY), [A], share=0.5)
        (row,) = asked(store)
    assert (row["intent"], row["class"]) == (again, "cap-memory")
    assert minutes(row) == (45, 45, 30, 30), "half of 90 minutes; half of the hour beside it"


def test_caches_of_a_job_that_has_the_whole_gpu_make_room_for_nobody(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, None)]) as store:
        deed(store, 30, ReleaseMemory(job=OWN, frees_bytes=GIB), [A])
        assert asked(store) == []


def test_no_minute_of_a_gpu_is_counted_twice(tmp_path: Path) -> None:
    held = [(A, OWN, 0, 10), (A, SECOND, 15, 40), (A, THIRD, 45, 105)]
    with past(tmp_path, held, busy=[(A, 15, 40), (A, 45, 105)]) as store:
        deed(store, 10, pause(OWN), [A])
        deed(store, 40, pause(SECOND), [A])
        first, second = asked(store)
    assert minutes(first) == (30, 30, 25, 25)
    assert minutes(second) == (140, 140, 60, 60)


def test_several_deeds_on_one_job_are_counted_once(tmp_path: Path) -> None:
    held = [(A, OWN, 0, 120), (A, SECOND, 40, 100), (B, THIRD, 0, 10), (B, SECOND, 15, 75)]
    with past(tmp_path, held, busy=[(A, 0, 120), (B, 15, 75)], share=0.5) as store:
        for at in (30, 60, 90):
            deed(store, at, ReleaseMemory(job=OWN, frees_bytes=GIB), [A], share=0.5)
        deed(store, 10, pause(THIRD), [B], share=0.5)
        deed(store, 20, Requeue(job=THIRD, action=ActionClass.RECLAIM), [B], share=0.5)
        leaving, released = asked(store)
    assert (leaving["verb"], minutes(leaving)) == ("pause", (85, 85, 30, 30))
    assert (released["verb"], minutes(released)) == ("release-memory", (45, 45, 30, 30))


def test_what_did_not_happen_took_turns_or_ended_a_job_is_left_out(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, 10), (A, SECOND, 10, None)], busy=[(A, 10, END)]) as store:
        deed(store, 10, pause(), [A], came=Failed(found="no checkpoint"))
        deed(store, 10, pause(), [A], came=Stale(found="it is gone"))
        deed(store, 10, pause(), [A], came=Late(found="not heard yet"))
        deed(store, 10, pause(), [A], came=None)
        deed(store, 10, pause(action=ActionClass.FAIR_SHARE, for_job=SECOND), [A])
        deed(store, 10, Requeue(job=OWN, for_job=SECOND), [A])
        deed(store, 10, Cancel(job=OWN), [A])
        assert asked(store) == []


def test_what_people_ordered_of_their_own_is_told_and_in_no_sum(tmp_path: Path) -> None:
    with past(tmp_path, IDLE_THEN_OTHERS, busy=[(A, 15, 35)]) as store:
        deed(store, 10, pause(action=ActionClass.SCHEDULE), [A], actor="user ana")
        rows = asked(store)
    found = judged(rows, 0.95)
    (people,) = found.classes
    assert (people.action, people.worked_gpu_hours) == (BY_PEOPLE, pytest.approx(20 / 60))
    assert (found.total.times, found.total.worked_gpu_hours) == (0, 0.0)


def test_a_plan_that_a_person_approved_is_an_action(tmp_path: Path) -> None:
    with past(tmp_path, IDLE_THEN_OTHERS) as store:
        number = deed(store, 10, pause(), [A], actor="user ana")
        with store.writing("approving a plan") as connection:
            connection.execute("UPDATE intents SET plan = 7 WHERE intent = $n", {"n": number})
        (row,) = asked(store)
    assert row["class"] == "reclaim"


def test_unmeasured_time_is_not_known_and_the_sums_say_so(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, 10), (A, SECOND, 10, 110)], [(A, 10, 110)], [(A, 20, 40)]) as store:
        deed(store, 10, pause(), [A])
        rows = asked(store)
    assert rows[0]["known_gpu_hours"] * 60 == pytest.approx(150)
    total = judged(rows, 0.95).total
    assert total.coverage_ratio == pytest.approx(150 / 170)
    assert (total.worked_gpu_hours, total.held_gpu_hours, total.freed_gpu_hours, total.money) == (None,) * 4
    assert judged(rows, 0.85).total.worked_gpu_hours is not None


def test_where_nothing_was_done_it_is_zero(tmp_path: Path) -> None:
    with past(tmp_path, [(A, OWN, 0, None)], dark=[(A, 0, END)]) as store:
        found = judged(asked(store), 0.95)
    assert found.classes == ()
    assert found.total == Saving(
        action="all",
        times=0,
        jobs=0,
        due_gpu_hours=0.0,
        coverage_ratio=None,
        freed_gpu_hours=0.0,
        held_gpu_hours=0.0,
        worked_gpu_hours=0.0,
        money=None,
        currency=None,
    )


def test_classes_add_up_to_the_whole(tmp_path: Path) -> None:
    held = [*IDLE_THEN_OTHERS, (C, THIRD, 0, None), (D, THIRD, 0, 60), (D, SECOND, 60, 90)]
    with past(tmp_path, held, busy=[(A, 15, 35), (D, 60, 90)]) as store:
        deed(store, 10, pause(), [A])
        deed(store, 60, Resize(job=THIRD, gpus=(C,)), [C, D])
        found = judged(asked(store), 0.95)
    assert [each.action for each in found.classes] == ["reclaim", "resize"]
    assert found.total.worked_gpu_hours == pytest.approx((20 + 30) / 60)
    assert found.total.money == pytest.approx((20 + 30) / 60 * 4)
    assert (found.total.times, found.total.jobs) == (2, 2)


def test_a_journal_of_another_version_breaks_nothing(tmp_path: Path) -> None:
    with past(tmp_path, IDLE_THEN_OTHERS) as store:
        number = deed(store, 10, pause(), [A])
        for step, stood in (("{}", ""), ("not json", "not json"), ('{"is":"Leap"}', '{"gpus":7}')):
            with store.writing("writing as another Fallow") as connection:
                connection.execute(
                    "UPDATE intents SET step = $step, stood = $stood WHERE intent = $n",
                    {"n": number, "step": step, "stood": stood},
                )
            assert asked(store) == []
