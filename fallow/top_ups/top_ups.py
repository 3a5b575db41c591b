"""The top-up jobs of one training: asked for one by one, seen in Slurm, let go, and cancelled at the end.

Slurm's programs take from milliseconds to half a minute, so they run in a thread of their own; the
controller's thread only says how many are wanted and which machines are there. A top-up that ended unasked is
not asked for again: whoever wanted it says so once more.

    asked ─► seen ─► joined ─► going (let go, preempted, lost) ─► ended
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from fallow.top_ups.growth import Look, refusal, rest_s
from fallow.top_ups.slurm import NoAnswer, new_nonce
from fallow.top_ups.slurm_text import Own, Site

SURE_S = 2.0
"""Between two looks at something that changes: what slurmctld has kept for so long it will not forget."""
LINGERS = 2
"""An agent that has left ends its job itself, within some tenths of a second: so many looks are its time."""
CALM_S = 30.0
"""Between two looks while nothing changes: one squeue for all, as sites ask of programs that poll."""
PENDING_S = 30.0
"""A top-up was to start at once: one that Slurm keeps waiting so long is let go."""
JOINING_S = 180.0
"""From its start until its agent has joined: imports over a network file system take their time."""
CLOSE_S = 25.0
"""How long the end of a training waits for Slurm to hear that its top-ups are to end."""


class Jobs(Protocol):
    """The part of ``slurm.Slurm`` that is used; all raise NoAnswer."""

    def site(self) -> Site:
        """How the site is configured."""
        ...

    def look(self, site: Site) -> Look:
        """All that growth depends on."""
        ...

    def submit(self, nonce: str, site: Site) -> None:
        """Ask for the job of this nonce."""
        ...

    def found(self, nonces: list[str]) -> Mapping[str, Own]:
        """Those of our jobs that Slurm shows."""
        ...

    def cancel(self, nonce: str) -> None:
        """End the job of this nonce."""
        ...


@dataclass(slots=True, kw_only=True)
class TopUp:
    """One job; ``job`` and ``state`` are Slurm's, ``None`` until it was seen.

    ``seen`` and ``missed`` count looks in a row that showed it or didn't. ``machine`` is the one that joined
    from it, ``gone`` once that is there no more, ``lingered`` how many looks later the job is still there.
    ``going`` says that it is to end, and why.
    """

    nonce: str
    asked_s: float
    job: str | None = None
    state: str | None = None
    reason: str = ""
    seen: int = 0
    missed: int = 0
    running_s: float | None = None
    machine: str | None = None
    gone: bool = False
    lingered: int = 0
    going: str | None = None
    ended: bool = False

    @property
    def settled(self) -> bool:
        """Whether it lends its GPUs, and Slurm was seen to know it twice."""
        return self.machine is not None and not self.gone and self.seen > 1


@dataclass(slots=True)
class _Ours:
    """What both threads know, under one lock."""

    wanted: int = 0
    jobs: list[TopUp] = field(default_factory=list)
    refused: str | None = None
    changed: bool = False


class TopUps:
    """At most ``most`` jobs; ``tell`` gets a line for a person, ``wake`` is called when something changed."""

    def __init__(
        self,
        slurm: Jobs,
        most: int,
        *,
        tell: Callable[[str], None] = lambda line: None,
        wake: Callable[[], None] = lambda: None,
        sure_s: float = SURE_S,
    ):
        self.most = most
        self._slurm, self._tell, self._wake, self._sure_s = slurm, tell, wake, sure_s
        self._ours = _Ours()
        self._news = threading.Condition()
        self._closed = False
        self._site: Site | None = None
        self._thread = threading.Thread(target=self._work, name="fallow-top-ups", daemon=True)
        self._thread.start()

    # -- the controller's side: never blocks ------------------------------------------------------------

    def ask(self, count: int) -> None:
        """Want so many from now on, ``most`` at most; of more than that the youngest go."""
        with self._news:
            ours = self._ours
            ours.wanted, ours.refused, ours.changed = min(count, self.most), None, True
            for job in _living(ours)[ours.wanted :]:
                job.going = "no longer wanted"
            self._news.notify_all()

    def outcome(self) -> dict[str, Any] | None:
        """How it went, once nothing is under way any more; ``None`` until then."""
        with self._news:
            ours = self._ours
            if ours.changed or not all(job.ended or (job.settled and not job.going) for job in ours.jobs):
                return None
            count = len(_living(ours))
            if ours.refused is not None:
                return {"error": ours.refused, "top_ups": count}
            return {"top_ups": count} if count == ours.wanted else None

    def follow(self, machines: Mapping[str, str]) -> tuple[frozenset[str], frozenset[str]]:
        """Take note of the machines that are there, by their job's id.

        Returns those that came from a top-up, and those of them that are to leave.
        """
        with self._news:
            for job in self._ours.jobs:
                if job.machine is None and job.job is not None and job.job in machines:
                    job.machine = machines[job.job]
                    self._stir()
                elif job.machine is not None and not job.gone and job.job not in machines:
                    job.gone = True
                    if job.going is None:
                        self._lose(job, "its machine has left")
                    self._stir()
            there = [job for job in self._ours.jobs if job.machine is not None and not job.gone]
            return (
                frozenset(job.machine for job in there if job.machine),
                frozenset(job.machine for job in there if job.machine and job.going),
            )

    def status(self) -> dict[str, Any]:
        """How many are wanted, which there are, and why there are no more."""
        with self._news:
            jobs = [
                {"job": job.job, "state": job.state, "machine": job.machine, "going": job.going}
                for job in self._ours.jobs
                if not job.ended
            ]
            ours = self._ours
            return {"most": self.most, "wanted": ours.wanted, "jobs": jobs, "refused": ours.refused}

    def close(self) -> None:
        """End all of them, also one that is just being asked for; blocks for CLOSE_S at most."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._thread.join(CLOSE_S)
        for job in self._ours.jobs:
            if not job.ended:
                try:
                    self._slurm.cancel(job.nonce)
                except NoAnswer as failure:
                    self._tell(f"top-ups could not be cancelled ({failure}); they end by themselves")
                    return

    def _stir(self) -> None:
        self._ours.changed = True
        self._news.notify_all()

    # -- the thread: talks with Slurm -------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._news:
                if not (self._ours.changed or self._closed):
                    self._news.wait(self._pause_s())
                if self._closed:
                    return
                self._ours.changed = False
            try:
                self._see()
                self._let_go()
                if self._is_short():
                    self._grow()
            except NoAnswer as failure:
                if self._is_short():  # else there is time: the next look may be answered
                    self._refuse(str(failure))
            self._wake()

    def _pause_s(self) -> float | None:
        """How long until the next look; ``None`` while there is nothing to look at."""
        jobs = [job for job in self._ours.jobs if not job.ended]
        if not jobs:
            return None
        return CALM_S if all(job.settled and not job.going for job in jobs) else self._sure_s

    def _see(self) -> None:
        """What Slurm shows of each; one that it doesn't show twice in a row is over."""
        with self._news:
            nonces = [job.nonce for job in self._ours.jobs if not job.ended]
        shown = self._slurm.found(nonces)
        now_s = time.monotonic()
        with self._news:
            for job in self._ours.jobs:
                if job.nonce in nonces:
                    self._note(job, shown.get(job.nonce), now_s)

    def _note(self, job: TopUp, shown: Own | None, now_s: float) -> None:
        if shown is None:
            job.seen, job.missed = 0, job.missed + 1
            if job.missed > 1:
                self._end(job, "Slurm doesn't know it any more")
            return
        job.seen, job.missed = job.seen + 1, 0
        job.job, job.state, job.reason = shown.job, shown.state, shown.reason
        job.lingered += job.gone
        if shown.ended:
            self._end(job, shown.state if shown.reason == "None" else f"{shown.state} ({shown.reason})")
        elif shown.state == "PENDING" and now_s - job.asked_s > PENDING_S:
            self._lose(job, f"Slurm didn't start it within {PENDING_S:g} s ({shown.reason})")
        elif shown.state == "RUNNING":
            job.running_s = job.running_s or now_s
            if job.machine is None and now_s - job.running_s > JOINING_S:
                self._lose(job, f"it didn't join within {JOINING_S:g} s: see fallow-top-up-{shown.job}.log")

    def _end(self, job: TopUp, how: str) -> None:
        job.ended = True
        if job.going is None:
            self._lose(job, how)
        self._tell(f"top-up {job.job or job.nonce} is over: {how}")

    def _lose(self, job: TopUp, why: str) -> None:
        """One goes that was to stay: no other is asked for in its place."""
        job.going = why
        self._ours.refused = f"job {job.job or job.nonce}: {why}"
        self._ours.wanted = min(self._ours.wanted, len(_living(self._ours)))

    def _let_go(self) -> None:
        """Cancel who is to go and never joined, or has left and didn't end by itself."""
        with self._news:
            going = [
                job.nonce
                for job in self._ours.jobs
                if job.going
                and not job.ended
                and (job.machine is None or job.lingered >= LINGERS)
                and job.state != "COMPLETING"
            ]
        for nonce in going:
            self._slurm.cancel(nonce)

    def _is_short(self) -> bool:
        """Whether another may be tried: only when the ones before it have joined."""
        with self._news:
            living = _living(self._ours)
            return len(living) < self._ours.wanted and all(job.settled for job in living)

    def _grow(self) -> None:
        now = datetime.now(UTC).astimezone().replace(tzinfo=None)  # as Slurm prints it
        site = self._slurm.site()
        wait_s = rest_s(site, self._site, now)
        if wait_s:
            self._refuse(
                f"slurmctld was started anew and may have forgotten something: ask in {wait_s:.0f} s"
            )
            return
        self._site = site
        with self._news:
            own = {job.job for job in self._ours.jobs if job.job is not None and not job.ended}
        why = refusal(self._slurm.look(site), own, now)
        if why is not None:
            self._refuse(why)
            return
        job = TopUp(nonce=new_nonce(), asked_s=time.monotonic())
        with self._news:
            if self._closed or len(_living(self._ours)) >= self._ours.wanted:
                return
            self._ours.jobs.append(job)  # before it is asked for: whatever happens then, it is looked for
        self._tell(f"asking Slurm for a top-up ({job.nonce})")
        try:
            self._slurm.submit(job.nonce, site)
        except NoAnswer as failure:  # it may be there all the same: then it is found, and cancelled
            with self._news:
                self._lose(job, str(failure))
        with self._news:
            self._ours.changed = True  # look at once

    def _refuse(self, why: str) -> None:
        with self._news:
            self._ours.refused = why
            self._ours.wanted = len(_living(self._ours))
        self._tell(f"no further top-up: {why}")


def _living(ours: _Ours) -> list[TopUp]:
    """Those that are to stay, oldest first."""
    return [job for job in ours.jobs if not job.ended and job.going is None]
