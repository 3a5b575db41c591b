"""A submitted job in its launcher, from the queue to its end: the loop that joins the course with the world.

Everything that happens comes through one loop on one thread: the workers' guard, the service's line, signals,
answers of the job's own socket, time. The course decides; here it is only done.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from advisor.jobs.model import Elasticity, ExitReason, JobState, Launcher, Sharing
from collector.model import GpuUuid, JobId, JobKind
from fallow.idle_gaps.page import PageError
from service.errors import ClientError, ServiceBusy, ServiceDown
from service.launcher import course as courses
from service.launcher import crew as crews
from service.launcher import link as links
from service.launcher import model, starting, steer, turns
from service.launcher.folder import StateDir
from service.launcher.idle_gaps import IdleGapPages
from service.launcher.link import Link
from service.launcher.mailbox import Mailbox
from service.launcher.model import Phase, StateMachine
from service.launcher.order import Order, signal_number
from service.launcher.reporting import OwnStatus, report
from service.launcher.signals import Signals, stop_here
from service.launcher.sitting import is_attached, quiet_s
from service.launcher.steer import Answer
from service.launcher.voice import TerminalOutput

REPORT_S = 5.0  # how old what the service shows of a job can be
LOOK_S = 0.1
"""Between two looks for the file that says that a job has saved itself."""
CHANGE_LIMIT_S = 600.0  # workers start, load their libraries and take over the state meanwhile
RELEASE_LIMIT_S = 30.0  # memory is given back between two steps
FAREWELL_S = 10.0  # somebody waits at the terminal
DETACHED_FAREWELL_S = 3600.0  # nobody waits, and a service may be upgraded meanwhile
AWAY_S = 1.0
"""How long the end is tried to be told to a service that doesn't answer."""


class Running:
    """One job. ``run`` blocks until its end and returns its exit code, a signal's below 0.

    ``resume`` asks the service to let the paused job go on; it is called when its user touches it. ``again``
    submits a job that the service has lost, and returns its new name; ``line`` makes the line of a job.
    """

    def __init__(
        self,
        *,
        order: Order,
        job: JobId,
        line: Callable[[JobId], Link],
        launcher: Launcher,
        meeting: StateDir,
        voice: TerminalOutput,
        resume: Callable[[JobId], None],
        again: Callable[[JobId], JobId],
    ) -> None:
        self._order, self._job, self._line, self._link = order, job, line, line(job)
        self._launcher, self._meeting, self._voice = launcher, meeting, voice
        self._resume, self._again = resume, again
        self._said_unknown = False
        self._course: StateMachine = courses.begin(order.terms)
        self._crew: crews.Supervisor | None = None
        self._pids: dict[int, int] = {}
        self._known = OwnStatus()
        self._mailbox, self._gaps = Mailbox(), IdleGapPages(order)
        self._report_at_s = 0.0
        self._asked_status = False
        self._left: int | None = None

    def run(self) -> int:
        """From the queue to the end."""
        ears = Signals()
        self._link.open()
        self._report(news=True)
        try:
            while self._left is None:
                self._round(ears)
            return self._left
        finally:
            self._voice.over()
            if self._crew is not None:
                self._crew.close()
            self._gaps.close()
            self._farewell(ears)
            self._link.close()
            ears.close()

    def _farewell(self, ears: Signals) -> None:
        """Tell a service that knows the job the end; for a while when it doesn't answer, or until Ctrl-C."""
        cancelled = self._course.over is not None and self._course.over.exit_reason is ExitReason.CANCELLED
        limit_s = DETACHED_FAREWELL_S if self._order.detach and not cancelled else FAREWELL_S
        until_s = time.monotonic() + limit_s
        if self._link.settle(min(limit_s, AWAY_S)) or self._said_unknown:
            return
        self._voice.say(f"the service doesn't answer: telling it the job's end, for {limit_s:g} s at most")
        while time.monotonic() < until_s and not self._link.settle(LOOK_S):
            if set(ears.numbers()) & set(courses.ENDERS):
                return

    # -- what happens ----------------------------------------------------------------------------------------

    def _round(self, ears: Signals) -> None:
        crew, touch = self._crew, self._touch()
        watched = [ears.fileno(), self._link.fileno(), self._mailbox.fileno(), *touch]
        if crew is not None:
            watched.append(crew.fileno())
        readable, _, _ = select.select(watched, [], [], self._pause_s())
        if ears.fileno() in readable:
            for number in ears.numbers():
                self._happened(model.Signalled(number=number))
                if number == signal.SIGTSTP:
                    stop_here()
        if crew is not None and crew.fileno() in readable:
            for news in crew.news():
                self._crew_event(news)
        link = self._link
        if link.fileno() in readable:
            for event in link.words():
                if link is self._link:  # else it is of a job that was submitted again since
                    self._service_event(event)
        if self._mailbox.fileno() in readable:
            self._hear_answers()
        if touch and touch[0] in readable:
            os.read(sys.stdin.fileno(), 4096)
            self._voice.say("asking for devices again")
            self._resume(self._job)
        self._passes()

    def _pause_s(self) -> float:
        now_s = time.monotonic()
        times = [self._report_at_s]
        wake_s = courses.wakes_s(self._course)
        if wake_s is not None:
            times.append(wake_s)
        if self._watches_for_saved():
            times.append(now_s + LOOK_S)
        return max(0.0, min(times) - now_s)

    def _passes(self) -> None:
        """What time brings."""
        if self._watches_for_saved() and self._meeting.saved.exists():
            self._happened(model.Saved())
        wake_s = courses.wakes_s(self._course)
        if wake_s is not None and time.monotonic() >= wake_s:
            self._happened(model.Tick())
        if time.monotonic() >= self._report_at_s:
            self._ask_status()
            self._report(news=False)

    def _crew_event(self, news: crews.News) -> None:
        match news:
            case crews.Started(worker=worker, pid=pid):
                self._pids[worker] = pid
                # The service is told of a launch once all of its workers run.
                if len(self._pids) == len(self._course.alive):
                    self._happened(model.Started(pids=tuple(self._pids[each] for each in sorted(self._pids))))
            case crews.Unstartable(why=why):
                self._happened(model.NotStarted(why=why, code=127 if "[Errno 2]" in why else 126))
            case crews.Ended(worker=worker, code=code):
                self._happened(model.WorkerEnded(worker=worker, code=code))
            case crews.SignalAnswer(heard=heard):
                if not heard:
                    name = self._order.submission.checkpoint_signal
                    why = f"no process of the job listens for SIG{name}, and it would end one that doesn't"
                    self._happened(model.Unsaved(why=why))
            case crews.AllEnded(guard_died=died):
                if died:
                    self._crew = None
                    self._voice.say("the guard of the job's processes was killed, and they with it")
                self._happened(model.Swept(by_force=died))
            case _:
                assert_never(news)

    def _service_event(self, event: links.Word) -> None:
        waits = self._course.phase in (Phase.WAITING, Phase.PAUSED)
        match event:
            case links.NewCommand(directive=command):
                self._happened(model.NewCommand(directive=command))
            case links.Leased(number=number, proof=proof):
                self._happened(model.Leased(number=number, proof=proof))
            case links.Opened(gpus=gpus, readers=readers):
                self._gaps.allow(gpus, readers)
            case links.Placed(text=text):
                if waits:
                    self._voice.wait(f"{self._job} {text}")
            case links.Lost(why=why):
                # A service that is away can't take its word back: nobody computes in gaps that it opened.
                self._gaps.allow(())
                goes_on = "it keeps its place" if waits else "the job goes on"
                self._voice.say(f"{why}; {goes_on}, and the service is looked for")
            case links.Reconnected():
                self._voice.say("the service answers again")
                self._said_unknown = False
                self._report(news=True)
            case links.Refused(why=why):
                self._voice.say(f"{why}; the job goes on")
            case links.Unknown(why=why):
                self._job_unknown(why)
            case links.JobOver():
                self._happened(model.Disowned())
            case _:
                assert_never(event)

    def _job_unknown(self, why: str) -> None:
        """The service doesn't know this job: while nothing of it lives, it is handed in again."""
        if self._course.phase in courses.EMPTY:
            self._submit_again(why)
        elif not self._said_unknown:
            self._voice.say(f"the service doesn't know this job: {why}; the job goes on")
        self._said_unknown = True

    def _submit_again(self, why: str) -> None:
        old_job = self._job
        try:
            self._job = self._again(old_job)
        except (ServiceDown, ServiceBusy) as error:
            if not self._said_unknown:
                self._voice.say(f"the service doesn't know this job: {why}; asking it again: {error}")
            return
        except ClientError as error:
            self._happened(model.TurnedAway(why=f"the service has lost {old_job}, and refuses it: {error}"))
            return
        self._link.close()
        self._link = self._line(self._job)
        self._link.open()
        text = f"the service had lost {old_job}: it was submitted again, and is {self._job} now"
        self._happened(model.Resubmitted(text=text))

    def _happened(self, event: model.Event) -> None:
        turn = courses.step(self._course, event, time.monotonic())
        self._course = turn.course
        for action in turn.actions:
            self._do(action)

    # -- what is done ----------------------------------------------------------------------------------------

    def _do(self, action: model.Action) -> None:
        match action:
            case model.Start():
                self._launch()
            case model.Save():
                self._save()
            case model.End():
                self._crew_of_job().signal(signal.SIGTERM, unless_heard=False)
            case model.Sweep(patience_s=patience_s):
                self._sweep(patience_s)
            case model.Reallocate(gpus=gpus):
                self._gaps.hold(gpus)
                words = ("devices", ",".join(gpus))
                self._ask(words, CHANGE_LIMIT_S, lambda answer: steer.changed(answer, gpus, self._leased()))
            case model.ReleaseMemory():
                self._release()
            case model.Forward(number=number):
                self._crew_of_job().signal(number, unless_heard=True)
            case model.Notify(text=text):
                self._voice.say(f"{text}; press Enter to go on" if self._touch() else text)
            case model.Announce():
                self._report(news=True)
            case model.Leave(code=code):
                self._left = code
            case _:
                assert_never(action)

    def _launch(self) -> None:
        course = self._course
        assert course.lease is not None
        self._voice.over()
        self._pids, self._known = {}, OwnStatus(checkpoint_ms=self._known.checkpoint_ms)
        user = {**os.environ, **self._order.environment}
        settings, remark = starting.without_strangers(course.lease.settings, user)
        if remark is not None:
            self._voice.say(remark)
        try:
            self._meeting.clear()
            crew = self._crew_of_job()
            workers = starting.starts(
                self._order,
                replace(course.lease, settings=settings),
                job=self._job,
                own=os.environ,
                meeting=self._meeting,
                restarted=course.restarted,
                gaps=self._gaps.launched(course.lease),
            )
        except PageError as error:
            self._happened(model.NotStarted(why=str(error), code=turns.STOPPED))
            return
        except OSError as error:
            self._happened(model.NotStarted(why=f"no process can be started: {error}", code=126))
            return
        # A killed client of MPS takes down what shares the GPU with it: there the end is asked for.
        death = signal.SIGTERM if course.lease.sharing is Sharing.MPS else signal.SIGKILL
        for worker, start in enumerate(workers):
            crew.start(worker, start.argv, start.env, death)

    def _sweep(self, patience_s: float) -> None:
        if self._crew is None:  # its guard could not be started: nothing of the job ever ran
            self._happened(model.Swept(by_force=False))
        else:
            self._crew.sweep(patience_s)

    def _crew_of_job(self) -> crews.Supervisor:
        if self._crew is None:
            self._crew = crews.Supervisor()
        return self._crew

    def _save(self) -> None:
        try:
            self._meeting.await_saved()
        except OSError as error:
            self._happened(model.Unsaved(why=f"it has no place to say that it saved itself: {error}"))
            return
        submission = self._order.submission
        if submission.mobility is Elasticity.ELASTIC:
            self._ask(("suspend",), submission.grace_s, steer.suspended)
        else:
            assert submission.checkpoint_signal is not None
            self._crew_of_job().ask(signal_number(submission.checkpoint_signal))

    def _release(self) -> None:
        if self._order.submission.mobility is Elasticity.ELASTIC:
            self._ask(("release-caches",), RELEASE_LIMIT_S, steer.released)
            return
        sockets = [self._meeting.job(worker) for worker in sorted(self._course.alive)]
        listening = [path for path in sockets if path.exists()]
        if not listening:
            self._happened(model.MemoryReleased(why="the job doesn't listen: it does not use fallow"))
            return
        launch = self._course.launch
        steer.asking(
            listening,
            ("release-caches",),
            RELEASE_LIMIT_S,
            lambda answer: self._mailbox.put(launch, steer.released(answer)),
        )

    def _watches_for_saved(self) -> bool:
        return (
            self._course.phase is Phase.SAVING and self._order.submission.mobility is not Elasticity.ELASTIC
        )

    # -- the job's own socket --------------------------------------------------------------------------------

    def _ask(
        self, words: tuple[str, ...], limit_s: float, read: Callable[[Answer], model.Event | None]
    ) -> None:
        launch = self._course.launch
        steer.asking(
            (self._meeting.control,), words, limit_s, lambda answer: self._mailbox.put(launch, read(answer))
        )

    def _ask_status(self) -> None:
        elastic = self._order.submission.mobility is Elasticity.ELASTIC
        path = self._meeting.control if elastic else self._meeting.job(0)
        if self._course.phase is not Phase.RUNNING or self._asked_status or not path.exists():
            return
        self._asked_status = True
        launch = self._course.launch
        steer.asking((path,), ("status",), REPORT_S, lambda answer: self._mailbox.put(launch, answer))

    def _hear_answers(self) -> None:
        for launch, answer in self._mailbox.take():
            if isinstance(answer, dict):
                self._asked_status = False
                if "error" not in answer and launch == self._course.launch:
                    self._known = OwnStatus.of_status(answer, self._known, time.monotonic_ns() // 1_000_000)
            elif launch == self._course.launch:
                self._happened(answer)  # type: ignore[arg-type]

    def _leased(self) -> tuple[GpuUuid, ...]:
        return () if self._course.lease is None else self._course.lease.gpus

    # -- reports and touch -----------------------------------------------------------------------------------

    def _report(self, *, news: bool) -> None:
        self._report_at_s = time.monotonic() + REPORT_S
        self._known = self._known.with_saved(self._meeting.saved)
        now_ms = time.time_ns() // 1_000_000
        gaps = self._gaps.counts(self._leased())
        current = report(self._course, self._launcher, self._known, now_ms, quiet_s=quiet_s(), idle_gaps=gaps)
        self._link.report(current, news=news)

    def _touch(self) -> list[int]:
        """Standard input while a paused job's user sits before it."""
        interactive = self._order.submission.kind is JobKind.INTERACTIVE
        if self._course.state is JobState.PAUSED and interactive and is_attached():
            return [sys.stdin.fileno()]
        return []
