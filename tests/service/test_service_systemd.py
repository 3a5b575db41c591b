"""The systemd unit: what it says, that systemd reads it, and that a machine without systemd is told so."""

import subprocess
from pathlib import Path

import pytest

from service.systemd import (
    Deployment,
    SystemdTrouble,
    must_have_systemd,
    quoted,
    this_program,
    unit_file,
    unit_text,
)
from tests.conftest import program
from tests.service.conftest import fallow


def deployment(**changes: object) -> Deployment:
    plain: dict[str, object] = {"program": this_program(), "data": None, "config": None, "for_user": False}
    return Deployment(**(plain | changes))  # type: ignore[arg-type]


def test_unit_of_the_machine_gives_up_what_it_does_not_need() -> None:
    lines = unit_text(deployment()).splitlines()
    for line in (
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_KILL",
        "RuntimeDirectory=fallow",
        "StateDirectory=fallow",
        "Type=notify",
        "Restart=on-failure",
    ):
        assert line in lines


def test_unit_of_one_user_asks_for_nothing_that_a_user_cannot_give() -> None:
    text = unit_text(deployment(for_user=True))
    assert "WantedBy=default.target" in text
    assert "CapabilityBoundingSet" not in text
    assert "ProtectSystem" not in text


def test_own_data_may_be_written_and_nothing_else(tmp_path: Path) -> None:
    text = unit_text(deployment(data=tmp_path))
    assert f"ReadWritePaths=-{tmp_path}\n" in text
    assert "StateDirectory" not in text


@pytest.mark.parametrize("for_user", [False, True])
@pytest.mark.parametrize("data", [None, Path("/srv/of people/100%/$HOME")])
def test_systemd_reads_the_unit_without_complaint(tmp_path: Path, for_user: bool, data: Path | None) -> None:
    verify = program("systemd-analyze", "systemd")
    unit = tmp_path / "fallow.service"
    unit.write_text(unit_text(deployment(for_user=for_user, data=data)))
    command = [verify, *(["--user"] if for_user else []), "verify", "--man=no", str(unit)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("word", "read"),
    [("/a/b", "/a/b"), ("/a b", '"/a b"'), ("100%", "100%%"), ("$HOME", "$$HOME"), ('q"q', '"q\\"q"')],
)
def test_words_are_quoted_as_systemd_reads_them(word: str, read: str) -> None:
    assert quoted(word) == read


def test_word_that_could_end_its_line_is_refused() -> None:
    with pytest.raises(SystemdTrouble):
        quoted("/data\nExecStartPre=/bin/evil")


def test_unit_of_a_user_lies_where_that_users_systemd_looks() -> None:
    assert unit_file(True, {"HOME": "/home/a"}) == Path("/home/a/.config/systemd/user/fallow.service")
    assert unit_file(True, {"XDG_CONFIG_HOME": "/c"}) == Path("/c/systemd/user/fallow.service")
    assert unit_file(False, {}) == Path("/etc/systemd/system/fallow.service")


def test_dry_run_prints_the_unit_anywhere() -> None:
    done = fallow("service", "install", "--dry-run")
    assert (done.returncode, done.stdout) == (0, unit_text(deployment()))


def test_machine_without_systemd_is_told_what_to_do_instead(tmp_path: Path) -> None:
    with pytest.raises(SystemdTrouble, match="fallow serve"):
        must_have_systemd(tmp_path / "nothing")
