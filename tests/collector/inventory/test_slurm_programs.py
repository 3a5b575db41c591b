"""Slurm's own programs: what they need to say to be believed, host lists, and who may see all jobs."""

import sys
from pathlib import Path

import pytest

from collector.inventory.hostlist import MOST_HOSTS, expand
from collector.inventory.slurm_programs import NoAnswer, answer, is_a_site
from collector.inventory.slurm_rights import account_of


def program(folder: Path, body: str) -> str:
    """An executable ``squeue``; ``body`` is shell."""
    path = folder / "squeue"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact"),
        ("exit 3", "ended with 3: no message"),
        ("echo 'squeue: error: Munge encode failed' >&2", "is slurmctld up, and munge"),
    ],
)
def test_a_program_that_fails_or_speaks_of_an_error_has_no_answer(
    tmp_path: Path, body: str, reason: str
) -> None:
    with pytest.raises(NoAnswer, match=reason):
        answer([program(tmp_path, body)])


def test_an_absent_program_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoAnswer, match=r"^squeue is not on the PATH"):
        answer(["squeue"])


def test_a_program_that_cannot_be_run_has_no_answer(tmp_path: Path) -> None:
    path = Path(program(tmp_path, ""))
    path.write_text("#!/no/such/interpreter\n")
    with pytest.raises(NoAnswer, match="could not be run"):
        answer([str(path)])


def test_a_silent_program_is_given_up(tmp_path: Path) -> None:
    body = f'exec "{sys.executable}" -c "import signal; signal.pause()"'
    with pytest.raises(NoAnswer, match=r"no answer in 0\.3 s"):
        answer([program(tmp_path, body)], 0.3)


def test_text_in_another_encoding_is_text(tmp_path: Path) -> None:
    assert answer([program(tmp_path, r"printf 'Gr\374n\n'")]) == "Gr\ufffdn\n"


def test_nothing_in_the_environment_leaves_jobs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_PARTITION", "SQUEUE_USERS", "SINFO_PARTITION", "SLURM_TIME_FORMAT"):
        monkeypatch.setenv(name, "short")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/other.conf")
    said = answer([program(tmp_path, "env")]).splitlines()
    assert not [line for line in said if line.startswith(("SQUEUE_", "SINFO_"))]
    assert {"SLURM_TIME_FORMAT=%s", "SLURM_CONF=/etc/slurm/other.conf"} <= set(said)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("gpu1", ("gpu1",)),
        ("gpu[008-010]", ("gpu008", "gpu009", "gpu010")),
        ("gpu[1,3-4],login", ("gpu1", "gpu3", "gpu4", "login")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("a-b[01,10]-ib", ("a-b01-ib", "a-b10-ib")),
    ],
)
def test_host_lists_are_expanded_in_order(text: str, hosts: tuple[str, ...]) -> None:
    assert expand(text) == hosts


def test_a_mistyped_host_list_is_bounded() -> None:
    assert len(expand("gpu[0-99999999]")) == MOST_HOSTS


CONFIG = """\
Configuration data as of 2026-11-25T15:00:00
ClusterName             = lab
PrivateData             = {private}
SlurmUser               = slurm(64030)
SLURM_VERSION           = 22.05.8
"""


@pytest.mark.parametrize(
    ("private", "uid", "level", "is_hidden"),
    [
        ("none", 1000, None, False),
        ("accounts,usage", 1000, None, False),
        ("jobs", 0, None, False),
        ("jobs", 64030, None, False),
        ("accounts,jobs", 1000, "None\n", True),
        ("jobs", 1000, None, True),
        ("all", 1000, "", True),
        ("jobs", 1000, "Operator\n", False),
        ("jobs", 1000, "Administrator\n", False),
    ],
)
def test_who_sees_all_jobs_is_asked_of_slurm(
    private: str, uid: int, level: str | None, is_hidden: bool
) -> None:
    def run(command: tuple[str, ...]) -> str | None:
        return CONFIG.format(private=private) if command[0] == "scontrol" else level

    def ask(command: tuple[str, ...]) -> str:
        said = run(command)
        if said is None:
            raise NoAnswer("sacctmgr: no accounting here")
        return said

    account = account_of(ask, uid)  # type: ignore[arg-type]
    assert (account.cluster, account.hidden is not None) == ("lab", is_hidden)


def test_a_configuration_that_cannot_be_read_is_no_answer() -> None:
    def ask(command: object) -> str:
        raise NoAnswer(f"scontrol could not be run: {command}")

    with pytest.raises(NoAnswer, match="scontrol"):
        account_of(ask, 1000)


def test_programs_that_know_of_no_cluster_are_no_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "")
    scontrol = tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("collector.inventory.slurm_programs.FILES", ())
    for line, is_one in (
        ("scontrol: fatal: Could not establish a configuration source", False),
        ("slurm_load_ctl_conf error: Unable to contact slurm controller", True),
    ):
        scontrol.write_text(f"#!/bin/sh\necho '{line}' >&2\nexit 1\n")
        scontrol.chmod(0o755)
        assert is_a_site({}) is is_one
    assert is_a_site({"SLURM_CONF": "/srv/slurm.conf"})
    (tmp_path / "squeue").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not is_a_site({"SLURM_CONF": "/srv/slurm.conf"})
