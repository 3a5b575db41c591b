"""What a launcher is told, as it comes: its directives, and its place while it waits.

A launcher that follows is one that lives, so a job's open stream counts as a sign of life.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from advisor.jobs.background import OpenGaps
from advisor.jobs.job_store import UnknownJob
from advisor.jobs.lifecycle import in_flight
from advisor.jobs.model import CancelCommand, Command, JobRecord, JobState
from advisor.serialize import to_tree
from collector.model import JobId
from service.schemas.answer import Row

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from service.control.loop import ActingLoop

ALIVE_S = 5.0
"""A launcher takes three times this without a word for a lost service (``service.client.jobs.SILENCE_S``)."""

Gates = Callable[[JobRecord], OpenGaps]
"""In which of a job's idle gaps others may compute now."""


def is_news(entry: JobRecord, after: int) -> bool:
    """Whether a launcher that handled ``after`` has still to hear of the newest directive. Pure."""
    directive = entry.directive
    if directive is None or directive.number <= after:
        return False
    return in_flight(entry) or (entry.state is JobState.ENDED and isinstance(directive, CancelCommand))


def is_meant(entry: JobRecord, nonce: str) -> bool:
    """Whether a launcher with the nonce of its submission means this entry; without one it does. Pure.

    After an older backup was put back, numbers are given again: then the nonce tells two jobs apart.
    """
    return nonce in ("", entry.submission.nonce)


def gaps_row(gaps: OpenGaps) -> Row:
    """What a launcher is told of its job's idle gaps; one of an older Fallow reads what is open. Pure."""
    readers = {"readers": [list(each) for each in gaps.readers]} if gaps.readers else {}
    return {"idle_gaps": {"open": list(gaps.gpus), **readers}}


async def follow(
    register: "Register",
    loop: "ActingLoop",
    job: JobId,
    after: int,
    *,
    is_launcher: bool = False,
    gates: Gates = lambda entry: OpenGaps(),
) -> AsyncIterator[Row]:
    """Directives above ``after`` and changes of place, until the job has ended or the reader closes it.

    ``is_launcher``: the reader was seen to be the job's launcher, and is told how the job stands, with a
    proof, where its commands bear none. ``gates`` says on which of its GPUs others may compute in its idle
    gaps: that is told at once, and anew to whoever begins to listen.
    """
    changed, running = asyncio.Event(), asyncio.get_running_loop()

    def stir(*_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop may end before what it listens to
            running.call_soon_threadsafe(changed.set)

    ends = register.follow(job, stir), loop.mind(job, stir)
    number, shown, lease, opened = after, None, None, None
    register.met(job, after)
    try:
        while True:
            # Before it is looked at: a change that comes in between has the next round begin at once.
            changed.clear()
            register.heard(job)
            try:
                entry = register.entry(job)
            except UnknownJob:
                return
            if entry.directive is not None and is_news(entry, number):
                number = entry.directive.number
                yield {"directive": to_tree(entry.directive, Command)}
            if entry.state is JobState.ENDED:
                return
            current = register.lease(job) if is_launcher else None
            if current is not None and current != lease:
                yield {"lease": {"number": current[0], "proof": current[1]}}
            lease = current
            open_now = gates(entry)
            announces = entry.report is not None and bool(entry.report.idle_gaps)
            if open_now != opened and (announces or opened is not None):
                yield gaps_row(open_now)
                opened = open_now
            place = loop.waits.get(job)
            if place is not None and place != shown:
                yield {"place": asdict(place)}
            shown = place
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALIVE_S):
                    await changed.wait()
    finally:
        for end in ends:
            end()
