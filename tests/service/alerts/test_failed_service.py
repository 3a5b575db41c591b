"""The word that the service does not start: who gets it, how often, and what if nobody can."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.alerts.failed_service import failure_text, tell_failure
from service.config.file import parse
from service.config.flags import Settings
from service.config.model import ConfigError
from tests.service.delivery.servers import webhook

pytestmark = pytest.mark.slow
MONITORED = {"MONITOR_SERVICE_RESULT": "exit-code", "MONITOR_EXIT_STATUS": "2"}


def settings(toml: str) -> Callable[[], Settings]:
    return lambda: Settings(data=Path("nowhere"), effective=parse(toml, origin="fallow.toml"))


def told_to(*addresses: str) -> str:
    given = ", ".join(f'"{each}"' for each in addresses)
    return f'[delivery.routes]\nops = [{given}]\n[alerts]\nto = ["ops"]\n'


def test_operators_are_told_once_in_the_quiet_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    environment = {**MONITORED, "RUNTIME_DIRECTORY": str(tmp_path)}
    with webhook() as hook:
        given = settings(told_to(hook.address))
        assert [tell_failure(given, environment) for _ in range(3)] == [0, 0, 0]
        assert len(hook.taken) == 1
        assert "the service does not start" in str(hook.taken[0]["title"])
        long_ago = time.time() - 1_000_000
        os.utime(tmp_path / "told", (long_ago, long_ago))
        assert tell_failure(given, environment) == 0
        assert len(hook.taken) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 4 and all(line.startswith("<2>") and "exit-code" in line for line in lines)


def test_of_several_receivers_one_that_is_away_costs_the_others_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    environment = {**MONITORED, "RUNTIME_DIRECTORY": str(tmp_path)}
    with webhook() as hook:
        given = settings(told_to("json://127.0.0.1:9/?cto=1&rto=1", hook.address))
        assert tell_failure(given, environment) == 1
        assert len(hook.taken) == 1 and (tmp_path / "told").exists()
    assert "did not arrive" in capfd.readouterr().err


def test_a_configuration_that_cannot_be_read_is_said_in_the_journal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken() -> Settings:
        raise ConfigError("fallow.toml:3: unknown key")

    assert tell_failure(broken, MONITORED) == 1
    assert "fallow.toml:3: unknown key" in capfd.readouterr().err
    assert tell_failure(settings(""), MONITORED) == 0
    assert "names nobody" in capfd.readouterr().err


def test_the_message_says_what_happened_and_what_to_do() -> None:
    text = failure_text(MONITORED, "fallow: port 9475 is in use")
    for part in ("exit-code, status 2", "port 9475 is in use", "journalctl -u fallow", "tried again"):
        assert part in text
    assert "last words" not in failure_text({}, "")
