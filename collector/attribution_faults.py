"""A fault that one process's description sets off in attribution costs that process alone, never the tick.

What a process is called and says of itself is whatever its owner writes: where Fallow trips over it,
everybody else's GPUs go on being measured. The process is then known by its pid alone, so *unknown*, and the
fault is logged once with its traceback, and told with the process (``Attribution.unclear``).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from collector.attribution import Attribution
from collector.model import (
    Process,
    ProcessKey,
)
from collector.reading import Reading

log = logging.getLogger(__name__)

Attribute = Callable[[Sequence[Reading], int], Attribution | None]

REASON_CHARS = 200
"""Of an error's text, which may quote what the process says."""


class EachAlone:
    """``attribute``, with the processes whose descriptions it fails on known by their pids alone.

    ``None``, as where nobody looked, when it fails without any process: then what was held stays held, and
    the fault is logged again whenever it is another one. For one thread.
    """

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        self._faults: dict[ProcessKey, tuple[Process, str]] = {}
        self._said: str | None = None

    def __call__(self, readings: Sequence[Reading], now_ms: int) -> Attribution | None:
        """Who holds what; a failure costs a look at each process alone, once for each description."""
        self._forget(readings)
        try:
            attribution = self._without_faulty(readings, now_ms)
        except Exception as error:
            self._find_faulty(readings, now_ms)
            attribution = self._second(readings, now_ms, error)
        else:
            self._said = None
        if attribution is None or not self._faults:
            return attribution
        faults = tuple((key, why) for key, (_, why) in sorted(self._faults.items()))
        return replace(attribution, unclear=(*attribution.unclear, *faults))

    def _second(self, readings: Sequence[Reading], now_ms: int, first: Exception) -> Attribution | None:
        try:
            return self._without_faulty(readings, now_ms)
        except Exception as error:
            if self._said != repr(error):
                log.exception("attribution failed; what was held before is told to be held", exc_info=first)
            self._said = repr(error)
            return None

    def _without_faulty(self, readings: Sequence[Reading], now_ms: int) -> Attribution | None:
        if not self._faults:
            return self._attribute(readings, now_ms)
        return self._attribute([_with_processes(each, self._bare) for each in readings], now_ms)

    def _bare(self, process: Process) -> Process:
        fault = self._faults.get(process.key)
        return process if fault is None else Process(key=process.key, unreadable=(fault[1],))

    def _find_faulty(self, readings: Sequence[Reading], now_ms: int) -> None:
        """Ask of each process as if it were the only one; note and log those that fail alone.

        Where it fails without any process, none is to blame.
        """
        try:
            self._attribute([_with_only(each, None) for each in readings], now_ms)
        except Exception:  # logged by who asked
            return
        for process in dict.fromkeys(process for each in readings for process in each.processes or ()):
            if process.key in self._faults:
                continue
            try:
                self._attribute([_with_only(each, process) for each in readings], now_ms)
            except Exception as error:
                why = f"a fault in Fallow: {error!r}"[:REASON_CHARS]
                self._faults[process.key] = process, why
                log.exception(
                    "process %d on %s is unknown: its description could not be attributed",
                    process.key.pid,
                    process.key.node,
                )

    def _forget(self, readings: Sequence[Reading]) -> None:
        """Let go of processes that are gone, or are described otherwise by now."""
        if not self._faults:
            return
        now = {process for each in readings for process in each.processes or ()}
        self._faults = {key: fault for key, fault in self._faults.items() if fault[0] in now}


def _with_processes(reading: Reading, as_told: Callable[[Process], Process]) -> Reading:
    if not reading.processes:
        return reading
    return replace(reading, processes=tuple(map(as_told, reading.processes)))


def _with_only(reading: Reading, process: Process | None) -> Reading:
    """The reading with this process alone, or none; what wasn't looked at still wasn't."""
    key = None if process is None else process.key
    processes, samples = reading.processes, reading.process_samples
    return replace(
        reading,
        processes=None if processes is None else tuple(each for each in processes if each == process),
        process_samples=None if samples is None else tuple(each for each in samples if each.key == key),
    )
