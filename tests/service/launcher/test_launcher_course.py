"""A job's course, held to its promises over arbitrary histories: what no order of events may bring about."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    JobState,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
)
from collector.model import GpuUuid
from service.launcher import course as courses
from service.launcher import model
from service.launcher.model import Phase, StateMachine, Terms
from service.launcher.world import Workers

pytestmark = pytest.mark.quick

UUIDS = tuple(GpuUuid(f"GPU-{letter}") for letter in "abcd")
gpus = st.lists(st.sampled_from(UUIDS), min_size=1, max_size=4, unique=True).map(tuple)
setting = st.sampled_from([(), (("TF_FORCE_GPU_ALLOW_GROWTH", "true"),)])


@dataclass
class World:
    """What the course acts on, without processes: it says what real workers might, and keeps count."""

    course: StateMachine
    now_s: float = 0.0
    living: set[int] = field(default_factory=set)
    sweeping: bool = False
    launches: list[tuple[str, ...]] = field(default_factory=list)
    asked_to_save: int = 0
    left: int | None = None
    reported: list[tuple[JobState, int, tuple[str, ...]]] = field(default_factory=list)

    def happens(self, event: model.Event) -> None:
        turn = courses.step(self.course, event, self.now_s)
        self.course = turn.course
        for action in turn.actions:
            self._done(action)

    def _done(self, action: model.Action) -> None:
        match action:
            case model.Start():
                assert not self.living, "a launch while something of the last one lives"
                assert self.course.lease is not None
                self.launches.append(self.course.lease.gpus)
                self.living = set(self.course.alive)
            case model.Save():
                assert self.course.terms.mobility is not Elasticity.RIGID, "a rigid job is asked to save"
                self.asked_to_save += 1
            case model.Sweep():
                self.sweeping = True
            case model.Announce():
                lease = self.course.lease
                held = () if lease is None else lease.gpus
                if self.living:
                    assert held, "devices are given back while workers live"
                self.reported.append((self.course.state, self.course.acknowledged, held))
            case model.Leave(code=code):
                assert self.left is None, "left twice"
                assert not self.living, "left while workers live"
                self.left = code
            case _:
                return


directive_kinds = st.sampled_from(
    [
        StartCommand,
        ResumeCommand,
        ReallocateCommand,
        PauseCommand,
        RequeueCommand,
        ReleaseMemoryCommand,
        NotifyCommand,
        CancelCommand,
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> World:
    terms = Terms(
        mobility=draw(st.sampled_from(Elasticity)),
        workers=draw(st.sampled_from(Workers)),
        grace_s=10.0,
        restarts=draw(st.integers(0, 2)),
        limit_s=draw(st.sampled_from([None, 200.0])),
    )
    world = World(course=courses.begin(terms))
    number = 0
    for _ in range(draw(st.integers(1, 40))):
        if world.left is not None:
            break
        choice = draw(st.integers(0, 12))
        if choice <= 3:
            number += draw(st.integers(0, 2))
            world.happens(model.NewCommand(directive=_directive(draw, number)))
        elif choice == 4:
            world.now_s += draw(st.sampled_from([0.5, 5.0, 70.0]))
            world.happens(model.Tick())
        elif choice == 12:
            empty = world.course.phase in courses.EMPTY
            world.happens(model.Resubmitted(text="anew"))
            if empty:
                number, world.reported = 0, world.reported[-1:]
                assert (world.course.phase, world.course.acknowledged) == (Phase.WAITING, 0)
        elif choice == 5:
            world.happens(model.Signalled(number=draw(st.sampled_from([2, 10, 15]))))
        elif choice == 6:
            world.happens(
                draw(st.sampled_from([model.Saved(), model.Saved(ends_itself=True), model.Unsaved(why="no")]))
            )
        elif choice == 7:
            world.happens(
                draw(
                    st.sampled_from(
                        [
                            model.MemoryReleased(),
                            model.Reallocated(gpus=UUIDS[:1]),
                            model.Reallocated(gpus=UUIDS[:2], why="no"),
                        ]
                    )
                )
            )
        else:
            _live(draw, world)
    return world


def _directive(draw: st.DrawFn, number: int) -> Command:
    kind = draw(directive_kinds)
    if kind in (StartCommand, ResumeCommand, ReallocateCommand):
        return kind(number=number, gpus=draw(gpus), settings=draw(setting))  # type: ignore[no-any-return]
    if kind is NotifyCommand:
        return NotifyCommand(number=number, message="hello")
    return kind(number=number)  # type: ignore[no-any-return]


def _live(draw: st.DrawFn, world: World) -> None:
    """What real workers and their guard may do next."""
    if world.course.phase is Phase.STARTING and draw(st.booleans()):
        world.happens(model.Started(pids=tuple(range(100, 100 + len(world.living)))))
    elif world.living and draw(st.booleans()):
        worker = draw(st.sampled_from(sorted(world.living)))
        world.living.discard(worker)
        world.happens(model.WorkerEnded(worker=worker, code=draw(st.sampled_from([0, 0, 1, 75, -9, -15]))))
    elif world.sweeping or (world.living and draw(st.integers(0, 9)) == 0):
        by_force = not world.sweeping
        world.living.clear()
        world.sweeping = False
        world.happens(model.Swept(by_force=by_force))


@pytest.mark.slow
@settings(max_examples=600)
@given(histories())
def test_no_history_breaks_a_promise(world: World) -> None:
    course = world.course
    if course.phase in courses.EMPTY or course.phase is Phase.ENDED:
        assert not world.living
    if course.phase in (Phase.WAITING, Phase.PAUSED, Phase.ENDED):
        assert course.lease is None
    numbers = [handled for _, handled, _ in world.reported]
    assert numbers == sorted(numbers)
    if course.terms.mobility is Elasticity.RIGID:
        assert world.asked_to_save == 0
        assert all(stand is not JobState.PAUSED for stand, _, _ in world.reported)
    assert (world.left is not None) == (course.phase is Phase.ENDED)
    assert course.phase is not Phase.SAVING or course.until_s is not None


@settings(max_examples=200)
@given(histories(), st.data())
def test_whatever_was_handled_is_never_done_again(world: World, data: st.DataObject) -> None:
    before = world.course
    newest = max([before.acknowledged, *(each.number for each in before.queue)])
    number = data.draw(st.integers(0, newest))
    turn = courses.step(before, model.NewCommand(directive=_directive(data.draw, number)), world.now_s)
    assert turn.course == before
    assert turn.actions == ()


@settings(max_examples=200)
@given(histories())
def test_a_stop_always_comes_to_an_end(world: World) -> None:
    world.happens(model.NewCommand(directive=CancelCommand(number=10_000)))
    for _ in range(6):
        if world.left is not None:
            break
        world.now_s += 1_000.0
        world.happens(model.Tick())
        world.living.clear()
        world.happens(model.Swept())
    assert world.left is not None
    assert world.course.acknowledged == 10_000 or world.course.over is not None


def test_an_elastic_job_changes_devices_in_place_and_saves_only_for_other_settings() -> None:
    course = courses.begin(Terms(mobility=Elasticity.ELASTIC))
    world = World(course=course)
    world.happens(model.NewCommand(directive=StartCommand(number=1, gpus=UUIDS[:1])))
    world.happens(model.Started(pids=(100,)))
    world.happens(model.NewCommand(directive=ReallocateCommand(number=2, gpus=UUIDS[:3])))
    assert world.course.phase is Phase.CHANGING
    world.happens(model.Reallocated(gpus=UUIDS[:3]))
    assert (world.course.phase, world.course.acknowledged, world.course.failed) == (Phase.RUNNING, 2, None)
    assert world.course.lease is not None and world.course.lease.gpus == UUIDS[:3]
    growth = (("TF_FORCE_GPU_ALLOW_GROWTH", "true"),)
    world.happens(model.NewCommand(directive=ReallocateCommand(number=3, gpus=UUIDS[:3], settings=growth)))
    assert world.course.phase is Phase.SAVING
    assert len(world.launches) == 1


def test_what_an_elastic_job_could_not_change_to_is_told_with_what_it_holds() -> None:
    world = World(course=courses.begin(Terms(mobility=Elasticity.ELASTIC)))
    world.happens(model.NewCommand(directive=StartCommand(number=1, gpus=UUIDS[:2])))
    world.happens(model.Started(pids=(100,)))
    world.happens(model.NewCommand(directive=ReallocateCommand(number=2, gpus=UUIDS[:3])))
    world.happens(model.Reallocated(gpus=UUIDS[:2], why="joiners failed"))
    assert world.reported[-1] == (JobState.RUNNING, 2, UUIDS[:2])
    assert world.course.failed == "joiners failed"


def test_time_on_devices_counts_towards_the_limit_and_time_in_the_queue_does_not() -> None:
    world = World(course=courses.begin(Terms(mobility=Elasticity.CHECKPOINTS, limit_s=100.0)))
    world.now_s = 5_000.0
    world.happens(model.NewCommand(directive=StartCommand(number=1, gpus=UUIDS[:1])))
    world.happens(model.Started(pids=(100,)))
    assert courses.wakes_s(world.course) == 5_100.0
    world.now_s = 5_060.0
    world.happens(model.NewCommand(directive=RequeueCommand(number=2)))
    world.happens(model.Saved())
    world.living.clear()
    world.happens(model.WorkerEnded(worker=0, code=-15))
    world.happens(model.Swept())
    assert world.course.phase is Phase.WAITING
    world.now_s = 9_000.0
    world.happens(model.Tick())
    world.happens(model.NewCommand(directive=StartCommand(number=3, gpus=UUIDS[:1])))
    world.happens(model.Started(pids=(101,)))
    assert courses.wakes_s(world.course) == 9_040.0


def test_who_is_turned_away_ends_only_where_nothing_of_it_lives() -> None:
    world = World(course=courses.begin(Terms()))
    world.happens(model.NewCommand(directive=StartCommand(number=1, gpus=UUIDS[:1])))
    world.happens(model.Started(pids=(100,)))
    before = world.course
    world.happens(model.TurnedAway(why="no"))
    world.happens(model.Resubmitted(text="anew"))
    assert world.course == before
    waiting = World(course=courses.begin(Terms()))
    waiting.happens(model.TurnedAway(why="no"))
    assert (waiting.left, waiting.course.failed) == (1, "no")


def test_what_a_job_ran_and_failed_before_counts_on_when_it_is_submitted_again() -> None:
    world = World(course=courses.begin(Terms(restarts=1, limit_s=100.0)))
    world.happens(model.NewCommand(directive=StartCommand(number=5, gpus=UUIDS[:1])))
    world.happens(model.Started(pids=(100,)))
    world.now_s = 60.0
    world.living.clear()
    world.happens(model.WorkerEnded(worker=0, code=1))
    world.happens(model.Swept())
    assert (world.course.phase, world.course.restarted) == (Phase.RESTING, 1)
    world.happens(model.Resubmitted(text="anew"))
    assert (world.course.phase, world.course.lease, world.course.restarted) == (Phase.WAITING, None, 1)
    world.happens(model.NewCommand(directive=StartCommand(number=1, gpus=UUIDS[1:2])))
    world.happens(model.Started(pids=(101,)))
    assert courses.wakes_s(world.course) == 100.0


def test_a_survived_ctrl_c_does_not_excuse_a_later_failure() -> None:
    world = World(course=courses.begin(Terms(restarts=1, grace_s=10.0)))
    world.happens(model.NewCommand(directive=StartCommand(number=1, gpus=UUIDS[:1])))
    world.happens(model.Started(pids=(100,)))
    world.happens(model.Signalled(number=2))
    world.now_s = 60.0
    world.living.clear()
    world.happens(model.WorkerEnded(worker=0, code=1))
    world.happens(model.Swept())
    assert world.course.phase is Phase.RESTING


def test_a_guard_killed_while_starting_leaves_the_start_to_be_answered() -> None:
    world = World(course=courses.begin(Terms(restarts=1)))
    world.happens(model.NewCommand(directive=StartCommand(number=1, gpus=UUIDS[:1])))
    world.living.clear()
    world.happens(model.Swept(by_force=True))
    assert (world.course.phase, world.course.acknowledged) == (Phase.RESTING, 0)
    world.now_s = 100.0
    world.happens(model.Tick())
    world.happens(model.Started(pids=(100,)))
    assert (world.course.phase, world.course.acknowledged, world.course.failed) == (Phase.RUNNING, 1, None)


def test_a_launch_is_the_same_for_equal_courses() -> None:
    course = courses.begin(Terms())
    told = model.NewCommand(directive=StartCommand(number=1, gpus=UUIDS[:2]))
    assert courses.step(course, told, 1.0) == courses.step(replace(course), told, 1.0)
