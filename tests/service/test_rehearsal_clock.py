"""A rehearsal's calendar: the same before it began, faster since, and the same again after a restart."""

import pytest

from collector.clock import HurriedClock
from service.config.file import parse
from service.config.model import ConfigError
from service.server.assemble import clock_of, timing

BEGAN_MS = 1_800_000_000_000


class Machine:
    """The machine's clock as a test sets it."""

    def __init__(self, now_ms: int) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return 7

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


@pytest.mark.parametrize(("passed_ms", "calendar_ms"), [(-5_000, -5_000), (0, 0), (1, 60), (10_000, 600_000)])
def test_calendar_runs_so_many_times_as_fast_since_it_began(passed_ms: int, calendar_ms: int) -> None:
    clock = HurriedClock(Machine(BEGAN_MS + passed_ms), speed=60, since_ms=BEGAN_MS)
    assert clock.now_ms() == BEGAN_MS + calendar_ms


def test_work_takes_as_long_as_it_takes() -> None:
    machine = Machine(BEGAN_MS)
    clock = HurriedClock(machine, speed=60, since_ms=BEGAN_MS)
    clock.sleep(2)
    assert (machine.now, clock.monotonic_ms()) == (BEGAN_MS + 2000, 7)


def test_without_a_rehearsal_it_is_the_machines_clock() -> None:
    before = clock_of(parse("", origin="a").config).now_ms()
    assert before <= clock_of(parse("", origin="a").config).now_ms() < before + 60_000


def test_a_source_gets_its_part_of_a_tick_as_the_machine_has_it() -> None:
    config = parse(f"[rehearsal]\nspeed = 60\nsince_ms = {BEGAN_MS}\n", origin="a").config
    assert timing(config).tick_ms == 10_000
    assert timing(config).source_timeout_ms == 133


def test_a_speed_without_its_beginning_is_refused() -> None:
    with pytest.raises(ConfigError, match="a rehearsal needs since_ms"):
        parse("[rehearsal]\nspeed = 60\n", origin="a")
