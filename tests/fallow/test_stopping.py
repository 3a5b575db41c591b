"""A training that is asked to stop is saved by whoever is left, and says the truth about it.

A pause in Slurm rests on it: exit code 75 holds the job under its number, everything else ends it.
"""

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.controller import events
from fallow.controller.actions import Adopt, Kill, Publish
from fallow.controller.membership import Limits, Pending, Phase, View, Worker, decide
from fallow.controller.save_watch import SaveWatch
from fallow.protocol import MemberId, Plan
from fallow.workers import pool
from tests.fallow.ledger import audit
from tests.fallow.test_driving import DEADLINE_S, shell

LIMITS = Limits(start_ms=1000, connect_ms=100, switch_ms=200, report_ms=50)
A, B = MemberId("a"), MemberId("b")
LEAVE = Plan(number=4, base=3, members=())
KILLED = -9


def stopping(*switched: MemberId) -> View:
    """Two members that a committed plan lets go; of them, A is to save, and ``switched`` have gone."""
    pending = Pending(plan=LEAVE, published_ms=0, committed=True, switched=frozenset(switched))
    workers = {name: Worker(phase=Phase.MEMBER, since_ms=0) for name in (A, B)}
    return View(
        target=2, generation=3, members=(A, B), workers=workers, pending=pending, next_number=5, stopping=True
    )


@pytest.mark.quick
def test_only_the_end_of_who_saves_leaves_a_training_unsaved() -> None:
    rows = {
        "another one, before": (stopping(), B, None),
        "another one, after": (stopping(A), B, None),
        "who saves, after": (stopping(A), A, None),
        "who saves, before": (stopping(), A, "a was killed by SIGKILL while leaving"),
        "who saves, the others gone": (stopping(B), A, "a was killed by SIGKILL while leaving"),
    }
    found = {name: events.ended(view, who, KILLED, None, 9).unsaved for name, (view, who, _) in rows.items()}
    assert found == {name: unsaved for name, (_, _, unsaved) in rows.items()}


@pytest.mark.quick
def test_one_that_is_ended_because_it_is_silent_has_not_saved_either() -> None:
    killed = events.condemned(stopping(), Kill(A, "silent"), 8)
    assert events.ended(killed, A, KILLED, None, 9).unsaved is not None


@pytest.mark.quick
def test_who_is_left_saves_in_place_of_one_that_was_lost() -> None:
    lost = events.ended(stopping(), A, KILLED, None, 9)
    assert decide(lost, 9, LIMITS) == (), "B has not said yet how far it is"
    told = events.lost(lost, {B: 7}, 10)
    (action,) = decide(told, 10, LIMITS)
    assert action == Publish(Plan(number=5, base=3, members=(B,), recover=True))
    again = events.published(told, action.plan, 10)
    assert again.unsaved is None
    alone = events.adopted(again, action.plan, 11)
    assert decide(alone, 12, LIMITS) == (Publish(Plan(number=6, base=5, members=())),)


@pytest.mark.quick
def test_nobody_is_waited_for_once_the_last_one_is_lost() -> None:
    lost = events.ended(events.ended(stopping(), A, KILLED, None, 9), B, KILLED, None, 9)
    assert lost.unsaved is not None
    assert decide(lost, 9, LIMITS) == (Adopt(LEAVE),)


def test_whoever_is_killed_as_all_leave_the_last_one_saves(tmp_path: Path) -> None:
    asleep = "w2/amid-step/10/sleep w2/amid-step/10"  # asked to stop while it sleeps, then killed
    with shell(tmp_path, "--workers", "3", "--max", "3", CRASH=f"{asleep} w0/before-save/0") as person:
        person.until_steps(30)
        assert person.ask("stop") == {"stopping": True}
        assert person.process.wait(DEADLINE_S) == 75, person.text
        assert "2 workers recovers" in person.text and "1 worker recovers" in person.text
        assert person.checkpoint.exists()
        audit(person.ledger, None, 331, 48)


@pytest.mark.long
def test_a_save_may_take_longer_than_the_end_of_a_step(tmp_path: Path) -> None:
    impatient = (
        "from fallow.controller import controller; controller.STOP_PATIENCE_S = 1.5; "
        "from fallow.controller.main import main; import sys; sys.exit(main())"
    )
    crash = "w0/before-save/0/sleep w0/before-save/0/sleep"
    with shell(tmp_path, program=("-c", impatient), CRASH=crash) as person:
        person.until_steps(5)
        person.ask("stop")
        assert person.process.wait(DEADLINE_S) == 75, person.text
        assert person.checkpoint.exists(), person.text


@pytest.mark.long
def test_what_did_not_reach_the_end_of_its_step_was_not_saved(tmp_path: Path) -> None:
    with shell(tmp_path, CRASH="w0/amid-step/3/hang") as person:
        person.until_steps(3)
        person.ask("stop")
        person.ask("stop")
        assert person.process.wait(DEADLINE_S) == 1, person.text
        assert "could not be saved then: its workers were ended" in person.text


@pytest.mark.quick
def test_a_save_has_a_limit_that_no_look_renews_and_another_ones_save_its_own() -> None:
    said: list[str] = []
    watch = SaveWatch(said.append)
    assert watch.until_s(A, 3, 100.0, 30.0) == 130.0
    assert watch.until_s(A, 3, 159.0, 30.0) == 189.0 and said == []
    assert watch.until_s(A, 3, 160.0, 30.0) == 190.0
    assert watch.until_s(A, 3, 161.0, 30.0) == 191.0 and len(said) == 1, "it is told once"
    assert watch.until_s(A, 3, 1899.0, 30.0) == 1900.0, "1,800 s after it began"
    assert [watch.late(at).split()[0] for at in (1899.9, 1900.0)] == ["step", "save"]
    assert watch.until_s(B, 4, 1900.0, 30.0) == 1930.0


class Unkillable:
    """A process that the kernel doesn't let go, as one that waits for a hard mount: no signal ends it."""

    def __init__(self) -> None:
        self.signals: list[str] = []

    def poll(self) -> int | None:
        return None

    def terminate(self) -> None:
        self.signals.append("TERM")

    def kill(self) -> None:
        self.signals.append("KILL")

    def wait(self, timeout: float | None = None) -> int:
        raise subprocess.TimeoutExpired("worker", timeout or 0.0)


@pytest.mark.quick
def test_a_worker_that_the_kernel_holds_is_told_and_not_waited_for_for_ever() -> None:
    said: list[str] = []
    held = Unkillable()
    pool.stop([held], 0.0, tell=said.append)  # type: ignore[list-item]
    assert held.signals[-1] == "KILL" and said == [
        "1 of 1 workers can't be ended: the kernel waits for storage or a device"
    ]


@pytest.mark.long
def test_a_save_that_never_ends_is_given_up_with_a_word(tmp_path: Path) -> None:
    impatient = (
        "from fallow.controller import controller, save_watch; controller.STOP_PATIENCE_S = 1.0; "
        "save_watch.SLOW_S = 1.0; save_watch.SAVE_PATIENCE_S = 3.0; "
        "from fallow.controller.main import main; import sys; sys.exit(main())"
    )
    with shell(tmp_path, program=("-c", impatient), CRASH="w0/before-save/0/hang") as person:
        person.until_steps(5)
        person.ask("stop")
        assert person.process.wait(DEADLINE_S) == 1, person.text
        assert "still saving after 1 s: is its storage away?" in person.text
        assert "its save did not end in time" in person.text
        assert "could not be saved then" in person.text and not person.checkpoint.exists()
