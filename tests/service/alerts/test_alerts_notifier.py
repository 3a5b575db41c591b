"""Messages beside terminals and launchers: who is told by which, and what a broken way costs."""

from dataclasses import dataclass, field

import pytest

from advisor.actions import Action, Notify, Pause
from advisor.engines.notify_owner import Notice, Told, tell
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported
from collector.model import JobId
from collector.store.errors import StoreFull
from service.alerts.notifier import LaunchedToo, MessageNotifier
from service.errors import QueryFailed

OURS, FOREIGN = JobId("fallow:7"), JobId("pid:node1/7@1")


@dataclass
class Hand:
    """An engine whose outcome a test chooses."""

    outcome: Outcome
    done: list[Action] = field(default_factory=list)

    def do(self, step: Action, intent: int = 0) -> Outcome:
        self.done.append(step)
        return self.outcome


@dataclass
class Letterbox:
    sent: list[tuple[JobId, str | None, str]] = field(default_factory=list)

    def __call__(self, notice: Notice, user: str | None) -> Told:
        self.sent.append((notice.job, user, notice.hint))
        return Told(missed=("message: on its way",))


def joined(box: Letterbox) -> MessageNotifier:
    notifier = MessageNotifier()
    notifier.join(box)
    return notifier


@pytest.mark.parametrize(
    ("outcome", "sent"),
    [
        (Done(), True),
        (Failed(found="its terminal is gone"), True),
        (Late(found="its launcher has not answered"), True),
        (Stale(found="it has ended"), False),
        (Unsupported(why="it cannot"), False),
    ],
)
def test_what_a_launcher_is_told_goes_out_as_a_message_unless_there_is_nobody_to_tell(
    outcome: Outcome, sent: bool
) -> None:
    box = Letterbox()
    engine = LaunchedToo(Hand(outcome), joined(box), {OURS: "ann"}.get)
    assert engine.do(Notify(job=OURS, message="It idles.", reason="idle"), 3) is outcome
    hint = f"Do you need it? `fallow keep {OURS} --hours 4` keeps it (4, 8 or 24 h)."
    assert box.sent == ([(OURS, "ann", hint)] if sent else [])


def test_foreign_jobs_and_other_steps_are_left_to_their_engine() -> None:
    box, hand = Letterbox(), Hand(Done())
    engine = LaunchedToo(hand, joined(box), {OURS: "ann"}.get)
    engine.do(Notify(job=FOREIGN, message="It idles.", reason="idle"))
    engine.do(Pause(job=OURS, reason="idle"))
    assert (len(hand.done), box.sent) == (2, [])


NOTICE = Notice(job=FOREIGN, user="ann", uid=None, message="It idles.")


@pytest.mark.parametrize(
    "error", [StoreFull("no room"), QueryFailed("too slow"), OSError(28, "No space left")]
)
def test_a_message_that_cannot_be_kept_costs_no_other_way(error: Exception) -> None:
    class Terminal:
        def notify(self, notice: Notice) -> Told:
            return Told(reached=("terminal pts/1",))

    def broken(notice: Notice, user: str | None) -> Told:
        raise error

    notifier = MessageNotifier()
    notifier.join(broken)
    told = tell(NOTICE, [notifier, Terminal()])
    assert told.reached == ("terminal pts/1",)
    assert told.missed == (f"message: {error}",)


def test_before_the_alerts_begin_nobody_is_told_by_message() -> None:
    assert MessageNotifier().notify(NOTICE).reached == ()
