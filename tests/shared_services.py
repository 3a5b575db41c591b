"""Services that many tests share: started for the first of them, stopped behind the last.

Each takes a twentieth of a core as long as it lives. Files that use one come first, whole, so that no fixture
of a module is made twice; a lane of half an hour would else carry it to its end.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("service", "door", "dashboard", "simulated")
"""Fixtures of a whole run that are services; one that asks another (the dashboard) before the other."""

PLUGIN = "fallow-shared-services"


class SharedServices:
    """Orders the tests, and counts how many still need a service."""

    def __init__(self) -> None:
        self._left: Counter[str] = Counter()
        self._stops: dict[str, Callable[[], None]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        using = {name: {item.path for item in items if name in fixtures_of(item)} for name in NAMES}
        items.sort(key=lambda item: [item.path not in using[name] for name in NAMES])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self._left.update(name for name in NAMES if name in fixtures_of(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        try:
            return (yield)
        finally:  # a test whose own teardown fails was a user as well: the service lived on without one
            for name in NAMES:
                if name in fixtures_of(item):
                    self._left[name] -= 1
                    if not self._left[name]:
                        self.stop(name)

    def keep(self, name: str, stop: Callable[[], None]) -> None:
        """Have ``stop`` called behind the last test that uses the fixture ``name``."""
        self._stops[name] = stop

    def stop(self, name: str) -> None:
        """Stop it, where nobody did."""
        stop = self._stops.pop(name, None)
        if stop is not None:
            stop()


@contextmanager
def stopped_behind_its_last_user(request: pytest.FixtureRequest, stop: Callable[[], None]) -> Iterator[None]:
    """For the fixture that asks: ``stop`` is called once, behind its last test or at the end of the run."""
    services = request.config.pluginmanager.get_plugin(PLUGIN)
    assert isinstance(services, SharedServices)
    name = str(request.fixturename)
    services.keep(name, stop)
    try:
        yield
    finally:
        services.stop(name)


def fixtures_of(item: pytest.Item) -> tuple[str, ...]:
    """Names of all fixtures that a test uses, through others too."""
    return tuple(getattr(item, "fixturenames", ()))
