"""What each test takes of the processors, and who takes more than a quick run can bear.

Processor time (user and system) of this process and of the children it waited for: unlike a clock's it hardly
depends on what else the machine does. A fixture wider than a function, a service for a module, is charged for
itself and not to the test that happens to be its first. Under pytest-xdist each worker measures, and the one
process that prints adds up.
"""

import json
import os
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SHOWN_S = 1.0
"""From here on a test has to say ``slow``; whoever doesn't is named at the end of a run."""
REFUSED_S = 5.0
"""From here on silence fails the run. Well above ``SHOWN_S``: who first needs a library pays its import."""
REFUSED_QUICK_S = 10.0
"""The same for who says ``quick`` by name: such a test starts processes that import torch, over 2 s each."""
SHARED_SHOWN_S = 2.0
"""The same for a fixture that tests share: several of them pay for it."""
SAID = ("slow", "process", "browser", "long", "gpu")
"""The markers that keep a test out of ``make test``."""
SHOWN_LINES = 30
KEY = "cpu_s"


def processor_s() -> float:
    """Seconds of processor time of this process, its threads and its ended children since it started."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


class Meter:
    """In the process that runs tests: writes the cost of each into its report."""

    def __init__(self) -> None:
        self._begun_s = self._ended_s = self._wide_s = 0.0
        self._inside_wide = False

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function" or self._inside_wide:
            return (yield)
        self._inside_wide, begun_s = True, processor_s()
        try:
            return (yield)
        finally:
            self._inside_wide = False
            self._wide_s += processor_s() - begun_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._wide_s, self._begun_s = 0.0, processor_s()
        item.teardown = self._note_end  # called when its own fixtures are torn down, before the wider ones
        return (yield)

    def _note_end(self) -> None:
        self._ended_s = processor_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        report = yield
        if call.when != "teardown":
            self._ended_s = processor_s()
            return report
        own_s = self._ended_s - self._begun_s - self._wide_s
        wide_s = self._wide_s + processor_s() - self._ended_s
        said = any(item.get_closest_marker(name) for name in SAID)
        refused_s = REFUSED_QUICK_S if item.get_closest_marker("quick") else REFUSED_S
        report.user_properties.append((KEY, (round(own_s, 3), round(wide_s, 3), said, refused_s)))
        return report


@dataclass(eq=False)  # pytest puts its plug-ins into sets
class Bill:
    """In the process that prints: who took more than it said; each test's cost into ``path``, a line each."""

    path: Path | None = None
    total_s: float = 0.0
    lines: list[str] = field(default_factory=list)
    unsaid: dict[str, float] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == KEY and report.when == "teardown":
                took_s, wide_s, said, refused_s = value
                self.total_s += took_s + wide_s
                self.lines.append(json.dumps({"test": report.nodeid, "own_s": took_s, "shared_s": wide_s}))
                if not said:
                    self._note(report.nodeid, took_s, SHOWN_S, refused_s)
                    self._note(f"{report.nodeid} (its shared fixtures)", wide_s, SHARED_SHOWN_S, REFUSED_S)

    def _note(self, who: str, took_s: float, shown_s: float, refused_s: float) -> None:
        if took_s >= shown_s:
            self.unsaid[who] = took_s
        if took_s >= refused_s:
            self.refused.append(who)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.path is not None:
            self.path.write_text("\n".join([*self.lines, ""]))
        if self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        if self.unsaid:
            terminalreporter.section("took over a second of processor time without the marker slow")
            dearest = sorted(self.unsaid.items(), key=lambda one: -one[1])
            for who, took_s in dearest[:SHOWN_LINES]:
                write(f"{took_s:6.1f} s  {who}")
            if len(dearest) > SHOWN_LINES:
                write(f"          and {len(dearest) - SHOWN_LINES} more")
        if self.refused:
            many = f"FAILED: {len(self.refused)} took over {REFUSED_S:g} s"
            write(f"{many}; make them cheaper, or mark them slow (docs/dev/testing.md)")
        write(f"{self.total_s:.0f} s of processor time")
