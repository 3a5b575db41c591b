"""The systemd unit: what it says, that systemd reads it, and that a machine without systemd is told so."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.node.token_file import must_know_its_head
from service.systemd import (
    SystemdTrouble,
    beyond_account,
    must_have_systemd,
    strangers_program,
    tell_accounts,
    this_program,
    trusted_by_root,
    unit_file,
)
from service.units import FAILED, HAND, NODE, PROBE, SERVICE, WITHIN_S, Deployment, UnitTrouble, quoted, units
from tests.conftest import program
from tests.service.conftest import fallow


def deployment(**changes: object) -> Deployment:
    plain: dict[str, object] = {
        "program": this_program(),
        "probe": this_program("fallow-probe", "service.privileged.probe"),
        "hand": this_program("fallow-hand", "service.privileged.hand"),
        "data": None,
        "config": None,
        "for_user": False,
    }
    return Deployment(**(plain | changes))  # type: ignore[arg-type]


def unit_text(wanted: Deployment) -> str:
    return units(wanted)[SERVICE]


def test_unit_of_the_machine_gives_up_what_it_does_not_need() -> None:
    lines = unit_text(deployment()).splitlines()
    for line in (
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "User=fallow",
        "CapabilityBoundingSet=",
        "RuntimeDirectory=fallow fallow-gpus",
        "StateDirectory=fallow",
        "Type=notify",
        "Restart=on-failure",
    ):
        assert line in lines


def test_parts_with_roots_powers_keep_few_of_them_and_no_network() -> None:
    looking = "CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"
    becoming = f"{looking} CAP_SETUID CAP_SETGID"
    for name, powers in ((PROBE, looking), (HAND, becoming)):
        lines = units(deployment())[name].splitlines()
        assert powers in lines and "NoNewPrivileges=yes" in lines
        assert "PrivateNetwork=yes" in lines and "RestrictAddressFamilies=AF_UNIX" in lines
        assert not [line for line in lines if line.startswith("User=")]


def test_the_hand_alone_may_become_another_account() -> None:
    """Of the calls of @privileged, which come after it in the filter or not at all; systemd.exec(5)."""
    for name, text in units(deployment()).items():
        filters = [line for line in text.splitlines() if line.startswith("SystemCallFilter=")]
        allowed = filters[filters.index("SystemCallFilter=~@clock @privileged @obsolete") + 1 :]
        assert allowed == (["SystemCallFilter=setgroups setreuid setregid"] if name == HAND else [])


def test_a_hand_that_is_stopped_leaves_alone_what_it_began() -> None:
    """systemd ends the whole control group else, and sessions of their own are no help; systemd.kill(5)."""
    assert "KillMode=process" in units(deployment())[HAND].splitlines()


def test_a_node_is_the_probe_and_one_unit_that_gives_up_as_much_as_the_service() -> None:
    texts = units(deployment(is_node=True, config=Path("/etc/fallow/node.toml")))
    assert set(texts) == {NODE, PROBE}
    own, service = texts[NODE].splitlines(), unit_text(deployment()).splitlines()
    assert (
        f"ExecStart={' '.join(this_program())} node --data %S/fallow-node --config /etc/fallow/node.toml"
        in own
    )
    shield = service[service.index("NoNewPrivileges=yes") : service.index("[Install]")]
    assert set(shield) <= set(own)
    for line in ("User=fallow", "CapabilityBoundingSet=", "Restart=always", "StartLimitIntervalSec=0"):
        assert line in own
    assert not any("FALLOW_HAND" in line for line in own), "nothing is done to anybody from a node"


@pytest.mark.parametrize("wanted", [deployment(), deployment(as_root=True), deployment(is_node=True)])
def test_no_part_that_asks_the_driver_loses_its_devices(wanted: Deployment) -> None:
    """ProtectClock adds a DeviceAllow, which closes every other device; systemd.exec(5)."""
    for name, text in units(wanted).items():
        closing = [word for word in ("ProtectClock", "PrivateDevices", "DeviceAllow") if word in text]
        assert (name == PROBE) == bool(closing), (name, closing)


@pytest.mark.parametrize("name", [SERVICE, PROBE, HAND, NODE])
def test_exposure_is_at_most_three_by_systemds_own_reckoning(tmp_path: Path, name: str) -> None:
    analyze = program("systemd-analyze", "systemd")
    (tmp_path / name).write_text({**units(deployment(is_node=True)), **units(deployment())}[name])
    command = [analyze, "security", "--offline=true", "--threshold=30", "--no-pager", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze judges no file: it is older than 250")
    assert done.returncode == 0, done.stdout[-300:]


def test_a_program_that_the_account_cannot_reach_is_found(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "bin").mkdir(parents=True)
    closed.chmod(0o700)
    found = beyond_account(closed / "bin" / "fallow")
    assert found is not None and (found == closed or closed.is_relative_to(found))


@pytest.mark.slow
def test_a_program_that_somebody_else_can_change_is_found(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file to another account needs root")
    program = tmp_path / "fallow"
    program.write_text("#!/bin/sh\n")
    assert strangers_program(program) is None
    os.chown(program, 4001, 4001)
    found = strangers_program(program)
    assert found is not None and str(program) in found
    assert strangers_program(program, trusted_by_root(())) == found
    assert strangers_program(program, frozenset({0, 4001})) is None


@pytest.mark.slow
@pytest.mark.parametrize("how", ["owned by another", "a link to another's"])
def test_a_module_that_others_can_change_is_found_wherever_python_would_load_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file to another account needs root")
    program, place = tmp_path / "fallow", tmp_path / "modules" / "deep"
    program.write_text("#!/bin/sh\n")
    place.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    assert strangers_program(program) is None
    module = place / "planted.py"
    module.write_text("pass\n")
    if how == "owned by another":
        os.chown(module, 4001, 4001)
    else:
        module.unlink()
        module.symlink_to(tmp_path / "theirs.py")
        (tmp_path / "theirs.py").touch()
        os.chown(tmp_path / "theirs.py", 4001, 4001)
    found = strangers_program(program)
    assert found is not None and ("planted.py" in found or "theirs.py" in found)


@pytest.mark.slow
def test_what_is_installed_beside_the_program_is_looked_at_as_well(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file to another account needs root")
    installed, here = tmp_path / "site-packages", Path(__file__).parents[2]
    for name in ("collector", "service"):
        shutil.copytree(here / name, installed / name, ignore=shutil.ignore_patterns("__pycache__"))
    look = "from service import systemd as s; print(s.strangers_program(s.Path(s.sys.executable)))"
    command = [sys.executable, "-B", "-c", look]
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def found() -> str:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment, timeout=60
        ).stdout.strip()

    assert found() == "None"
    (installed / "duckdb").mkdir()
    (installed / "duckdb" / "planted.py").touch()
    os.chown(installed / "duckdb" / "planted.py", 4001, 4001)
    assert "planted.py" in found()


def test_who_is_trusted_by_root_is_an_account() -> None:
    assert trusted_by_root(("daemon",)) == {0, 1}
    with pytest.raises(SystemdTrouble, match="--trust names nobody-here"):
        trusted_by_root(("nobody-here",))


def test_root_names_the_account_that_everybody_believes_once(tmp_path: Path) -> None:
    file = tmp_path / "fallow" / "fallow.toml"
    if os.geteuid() != 0:
        pytest.skip("only root's file is believed: this needs root")
    assert tell_accounts(Path("/var/lib/fallow"), file=file) is True
    assert file.read_text() == '[system]\naccount = "fallow"\ndata = "/var/lib/fallow"\n'
    assert file.stat().st_mode & 0o777 == 0o644
    assert tell_accounts(Path("/var/lib/fallow"), file=file) is False
    file.write_text('[system]\naccount = "other"\n')
    with pytest.raises(SystemdTrouble, match="names other"):
        tell_accounts(Path("/var/lib/fallow"), file=file)
    assert "other" in file.read_text(), "what root wrote stays"


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
    texts = dict(units(deployment(for_user=for_user, data=data)))
    texts |= {} if for_user else units(deployment(data=data, is_node=True))
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in texts]
    command = [verify, *(["--user"] if for_user else []), "verify", "--man=no", *paths]
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
    with pytest.raises(UnitTrouble):
        quoted("/data\nExecStartPre=/bin/evil")


def test_unit_of_a_user_lies_where_that_users_systemd_looks() -> None:
    assert unit_file(True, {"HOME": "/home/a"}) == Path("/home/a/.config/systemd/user/fallow.service")
    assert unit_file(True, {"XDG_CONFIG_HOME": "/c"}) == Path("/c/systemd/user/fallow.service")
    assert unit_file(False, {}) == Path("/etc/systemd/system/fallow.service")


def test_dry_run_prints_the_unit_anywhere() -> None:
    done = fallow("service", "install", "--dry-run")
    assert done.returncode == 0
    assert all(text in done.stdout for text in units(deployment()).values())
    alone = fallow("service", "install", "--dry-run", "--as-root")
    assert alone.returncode == 0 and PROBE not in alone.stdout
    for name, text in units(deployment(as_root=True)).items():
        assert f"# /etc/systemd/system/{name}\n{text}" in alone.stdout


def test_a_node_is_not_installed_before_it_knows_its_head_and_token(tmp_path: Path) -> None:
    config, token = tmp_path / "node.toml", tmp_path / "token"

    def refused(said: str | None) -> str:
        if said is not None:
            config.write_text(said)
        with pytest.raises(SystemdTrouble) as error:
            must_know_its_head(config)
        return str(error.value)

    assert f"there is no {config}" in refused(None)
    assert "names no head" in refused("[node]\n")
    assert "${file:PATH}" in refused('[node]\nhead = "https://head"\n')
    assert f"there is no {token}" in refused(f'[node]\nhead = "https://head"\ntoken = "${{file:{token}}}"\n')
    token.touch()
    assert must_know_its_head(config) == token


def test_a_service_that_fails_for_good_is_told_of_and_started_again() -> None:
    texts = units(deployment())
    assert f"OnFailure={FAILED}\n" in texts[SERVICE]
    failed = texts[FAILED]
    assert " service tell-failure --data %S/fallow\n" in failed
    assert f"OnSuccess={SERVICE}\n" in failed and f"sleep {WITHIN_S}\n" in failed
    assert "NoNewPrivileges=yes" in failed and "CapabilityBoundingSet=\n" in failed
    assert "ProtectSystem" not in units(deployment(for_user=True))[FAILED]


def test_machine_without_systemd_is_told_what_to_do_instead(tmp_path: Path) -> None:
    with pytest.raises(SystemdTrouble, match="fallow serve"):
        must_have_systemd(tmp_path / "nothing")
