"""What ``fallow doctor`` says of acting on this machine."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.engines.cuda_checkpoint import Host
from collector.procfs.terminals import Terminal
from fallow.workers import interfaces
from service.config.hooks import HookConfig
from service.config.model import Config
from service.doctor_checks.control_checks import (
    checkpoint_found,
    elastic_network,
    hooks,
    mps,
    terminals_found,
)
from service.doctor_checks.results import Verdict
from tests.service.conftest import verb

FIT = Host(architecture="x86_64", driver_major=580, uid=0, available_bytes=100 << 30)


def terminal(*, takes_messages: bool = True, uid: int = 1000) -> Terminal:
    return Terminal(
        name="null", path=Path("/dev/null"), device=0, uid=uid, takes_messages=takes_messages, input_ms=0
    )


@pytest.mark.parametrize(
    ("found", "uid", "verdict", "says"),
    [
        ((), 0, Verdict.ABSENT, "nobody is logged in"),
        ((terminal(),), 0, Verdict.GOOD, "1 in use, 1 accept messages, 1 can be written from here"),
        ((terminal(),), 4242, Verdict.LIMITED, "1 accept messages, 0 can be written"),
        ((terminal(uid=4242),), 4242, Verdict.GOOD, "1 can be written"),
        ((terminal(takes_messages=False),), 0, Verdict.LIMITED, "0 accept messages"),
    ],
)
def test_terminals(found: tuple[Terminal, ...], uid: int, verdict: Verdict, says: str) -> None:
    finding = terminals_found(found, on=True, uid=uid, groups=[])
    assert finding.verdict is verdict and says in finding.found
    assert terminals_found(found, on=False, uid=uid, groups=[]).verdict is Verdict.ABSENT


@pytest.mark.parametrize(
    ("host", "on", "verdict", "says"),
    [
        (FIT, True, Verdict.GOOD, "can pause everybody's processes"),
        (FIT, False, Verdict.ABSENT, "switched off"),
        (replace(FIT, uid=1000), True, Verdict.LIMITED, "only this user's"),
        (replace(FIT, driver_major=560), True, Verdict.TROUBLE, "has no timeout for the lock"),
        (replace(FIT, driver_major=None), True, Verdict.ABSENT, "no NVIDIA driver is loaded"),
        (replace(FIT, driver_major=590), True, Verdict.TROUBLE, "add 590 to foreign.drivers"),
        (replace(FIT, driver_major=595, drivers=(595,)), True, Verdict.LIMITED, "a host stopped"),
        (replace(FIT, driver_major=600, drivers=(600,)), True, Verdict.GOOD, "driver 600 can pause"),
        (replace(FIT, mps_pids={0: (7,)}), False, Verdict.ABSENT, "multi-process service runs"),
    ],
)
def test_checkpoints(host: Host, on: bool, verdict: Verdict, says: str) -> None:
    finding = checkpoint_found(host, on=on)
    assert finding.verdict is verdict and says in finding.found


def test_an_untried_driver_is_told_how_to_be_tried() -> None:
    advice = checkpoint_found(replace(FIT, driver_major=600), on=True).advice
    assert (
        "tests.gpu.run --try-driver --only move" in advice and "add 600 to drivers under [foreign]" in advice
    )


def test_mps_says_how_sharers_are_kept_apart() -> None:
    assert "take turns" in mps(()).found
    assert mps((9,)).verdict is Verdict.GOOD


def test_doctor_prints_them(tmp_path: Path) -> None:
    rows = json.loads(verb("doctor", "--json", data=tmp_path).stdout)
    subjects = [row["subject"] for row in rows]
    assert subjects[-4:] == ["terminals", "checkpoint", "MPS", "elastic network"]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"GLOO_SOCKET_IFNAME": "lo"}, "GLOO_SOCKET_IFNAME=lo is loopback"),
        ({"NCCL_SOCKET_IFNAME": "=lo"}, "NCCL_SOCKET_IFNAME==lo is loopback"),
        ({"GLOO_SOCKET_IFNAME": "lo,none0"}, "GLOO_SOCKET_IFNAME=lo,none0 is no interface of this machine"),
    ],
)
def test_an_interface_on_which_no_other_machine_is_is_trouble(variables: dict[str, str], said: str) -> None:
    found = elastic_network(Config(), variables)
    assert found.verdict is Verdict.TROUBLE and said in found.found and "unset" in found.advice


def test_the_way_to_other_machines_is_said_or_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "route_address", lambda towards: "10.9.0.5")
    monkeypatch.setattr(interfaces, "interface_of", lambda address: "fabric")
    monkeypatch.setattr(interfaces, "only_here", lambda name: "127.0.1.1")
    found = elastic_network(Config(), {"NCCL_SOCKET_IFNAME": "^docker"})
    assert found.verdict is Verdict.GOOD
    assert found.found.startswith("10.9.0.5 (fabric) leads to other machines")
    assert "but for NCCL_SOCKET_IFNAME=^docker" in found.found
    assert "127.0.1.1 here: give `--listen` the address" in found.found
    monkeypatch.setattr(interfaces, "route_address", lambda towards: None)
    assert elastic_network(Config(), {}).verdict is Verdict.ABSENT


def test_a_hook_says_whom_it_pauses_or_whose_program_it_is_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    own = {"namespaces": ("jupyter",), "pause": ("/bin/true",), "resume": ("/bin/true",)}
    (good,) = hooks(Config(hooks={"nb": HookConfig(**own, idle_hours=4)}))
    assert (good.subject, good.verdict) == ("hook nb", Verdict.GOOD)
    assert good.found == "pauses whoever idles for 4 h in jupyter"
    (missing,) = hooks(Config(hooks={"nb": HookConfig(**{**own, "pause": (f"{tmp_path}/none",)})}))
    assert missing.verdict is Verdict.TROUBLE and "can't be looked at" in missing.found
    assert list(hooks(Config())) == []
