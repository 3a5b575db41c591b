"""What acting could do on this machine, one small examination a row: terminals, checkpoints, MPS.

Asked by ``service.doctor_checks.checks``; nothing is written, and nobody is told anything.
"""

import os
import platform
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from analytics import text
from service.doctor_checks.results import Finding, Verdict

if TYPE_CHECKING:
    from advisor.engines.cuda_checkpoint import Host
    from collector.procfs.terminals import Terminal
    from service.config.model import Config


def projects(config: "Config") -> Iterator[Finding]:
    """Whether somebody may use each project that has a quota; nothing where the site names no projects."""
    from service.control.membership import remarks, rules_of

    if config.quotas:
        rules = rules_of(config)
        problems = remarks(rules)
        verdict = Verdict.LIMITED if problems else Verdict.GOOD
        sentence = problems[0] if problems else "each has members, and nobody else may use it"
        yield Finding(subject="projects", verdict=verdict, found=sentence)


def engines() -> Finding:
    """What is done at all to jobs of each kind, where mode and owner allow it."""
    from service.control.engines import CAPABILITIES

    sentences = []
    for each in CAPABILITIES.values():
        verbs = [verb for verb, why in each.can().items() if why is None]
        done = ", ".join(verbs) if each.cannot else "every action"
        whose = "on the GPUs that they have" if each.chooser is None else f"{each.chooser} chooses their GPUs"
        sentences.append(f"to {each.jobs}: {done}; {whose}")
    return Finding(subject="engines", verdict=Verdict.GOOD, found=". ".join(sentences))


def hooks(config: "Config") -> Iterator[Finding]:
    """Whether each hook's programs would be run, and for whom."""
    from advisor.engines.hook_commands import fault
    from collector.file_trust import ROOT_UID
    from service.config.hooks import hooks_of

    for hook in hooks_of(config.hooks):
        trusted = {ROOT_UID} if hook.idle_s is not None else {ROOT_UID, os.geteuid()}
        faults = (fault(each, frozenset(trusted)) for each in (hook.tell, hook.pause, hook.resume))
        why = next((each for each in faults if each is not None), None)
        places = ", ".join(sorted(hook.namespaces | hook.partitions | hook.qos))
        whom = "those who agreed" if hook.idle_s is None else f"whoever idles for {text.length(hook.idle_s)}"
        does = f"pauses {whom}" if hook.pause else "tells owners"
        yield Finding(
            subject=f"hook {hook.name}",
            verdict=Verdict.GOOD if why is None else Verdict.TROUBLE,
            found=f"{does} in {places}" if why is None else f"it is not run: {why}",
            advice="" if why is None else "give program and folders to root, writable by nobody else",
        )


def terminals(config: "Config") -> Finding:
    """Whether owners could be told on their terminals."""
    from collector.procfs.terminals import terminals as find

    return terminals_found(find(), on=config.foreign.terminals, uid=os.geteuid(), groups=os.getgroups())


def terminals_found(logins: "tuple[Terminal, ...]", *, on: bool, uid: int, groups: list[int]) -> Finding:
    """What those terminals mean for telling. Looks at each one's group."""
    if not on:
        return Finding(
            subject="terminals",
            verdict=Verdict.ABSENT,
            found="switched off by foreign.terminals: nobody is told on a terminal",
        )
    if not logins:
        return Finding(subject="terminals", verdict=Verdict.ABSENT, found="nobody is logged in at a terminal")
    open_ones = [each for each in logins if each.takes_messages]
    ours = [each for each in open_ones if _may_write(each, uid, groups)]
    sentence = f"{len(logins)} in use, {len(open_ones)} accept messages, {len(ours)} can be written from here"
    if len(ours) < len(open_ones):
        advice = "run the service as root, or in the group that owns the terminals (tty)"
        return Finding(subject="terminals", verdict=Verdict.LIMITED, found=sentence, advice=advice)
    if not open_ones:
        advice = "owners allow messages with `mesg y`; without, `fallow status` is all they see"
        return Finding(subject="terminals", verdict=Verdict.LIMITED, found=sentence, advice=advice)
    return Finding(subject="terminals", verdict=Verdict.GOOD, found=sentence)


def checkpoint(config: "Config", driver_version: str | None) -> Finding:
    """Whether a job that Fallow did not launch could be paused here."""
    from advisor.engines.cuda_checkpoint import Host
    from collector.procfs.checkpoint_blockers import available_bytes, mps_pids

    major = (driver_version or "").split(".", 1)[0]
    host = Host(
        architecture=platform.machine(),
        driver_major=int(major) if major.isdigit() else None,
        uid=os.geteuid(),
        available_bytes=available_bytes(),
        mps_pids=mps_pids(),
        drivers=config.foreign.drivers,
    )
    return checkpoint_found(host, on=config.foreign.checkpoint)


def checkpoint_found(host: "Host", *, on: bool) -> Finding:
    """What this machine means for checkpoints of foreign jobs. Pure."""
    from advisor.engines.cuda_checkpoint import TOLD_TO_FAIL, unfit_host

    why = (
        "no NVIDIA driver is loaded, or none that tells its version"
        if host.driver_major is None
        else unfit_host(host)
    )
    if why is not None:
        verdict = Verdict.TROUBLE if on and host.driver_major is not None else Verdict.ABSENT
        advice = "set checkpoint = false under [foreign]: it can do nothing here" if on else ""
        if on and host.driver_major is not None and "foreign.drivers" in why:
            advice = (
                "try it on a machine that nobody works on, with "
                "`python -m tests.gpu.run --try-driver --only move`, and then "
                f"add {host.driver_major} to drivers under [foreign]; until then it does nothing here"
            )
        return Finding(subject="checkpoint", verdict=verdict, found=why, advice=advice)
    free = "unknown" if host.available_bytes is None else text.size(host.available_bytes)
    whose = "everybody's" if host.uid == 0 else "only this user's"
    sentence = f"driver {host.driver_major} can pause {whose} processes; host memory available: {free}"
    if not on:
        return Finding(
            subject="checkpoint",
            verdict=Verdict.ABSENT,
            found=f"{sentence}; switched off",
            advice="checkpoint = true under [foreign] lets Fallow pause jobs that it did not launch",
        )
    failures = TOLD_TO_FAIL.get(host.driver_major or 0)
    if failures is not None:
        sentence = (
            f"{sentence}; foreign.drivers allows {host.driver_major}, of which was reported: {failures}"
        )
    good = host.uid == 0 and failures is None
    return Finding(subject="checkpoint", verdict=Verdict.GOOD if good else Verdict.LIMITED, found=sentence)


def mps(pids: tuple[int, ...] | None = None) -> Finding:
    """Whether CUDA's multi-process service runs, which decides how sharers of a GPU are kept apart."""
    from collector.procfs.checkpoint_blockers import mps_pids

    pids_by_uid = {} if pids is not None else mps_pids()
    running = pids or (*pids_by_uid.get(0, ()), *pids_by_uid.get(os.geteuid(), ()))
    if running:
        sentence = (
            f"runs (process {running[0]}): one user's jobs share a GPU by it; no client of it is checkpointed"
        )
        return Finding(subject="MPS", verdict=Verdict.GOOD, found=sentence)
    return Finding(
        subject="MPS",
        verdict=Verdict.ABSENT,
        found="no daemon runs: sharers of a whole GPU take turns on it (time-slicing)",
        advice="`nvidia-cuda-mps-control -d`, as the user whose jobs share, lets them compute side by side",
    )


def _may_write(terminal: "Terminal", uid: int, groups: list[int]) -> bool:
    try:
        return uid in (0, terminal.uid) or terminal.path.stat().st_gid in groups
    except OSError:
        return False


def elastic_network(config: "Config", environment: Mapping[str, str] = os.environ) -> Finding:
    """Over which interface further machines of an elastic training would reach this one. Sends nothing."""
    from fallow.workers.interfaces import ELSEWHERE, GLOO, NCCL, interface_of, only_here, route_address

    chosen = {name: environment[name] for name in (GLOO, NCCL) if environment.get(name)}
    there = {name for _, name in socket.if_nameindex()}
    for variable, value in chosen.items():
        names = set(value.removeprefix("=").split(","))
        wrong = "loopback, where no other machine is" if names == {"lo"} else "no interface of this machine"
        if names == {"lo"} or (variable == GLOO and names - there):
            return Finding(
                subject="elastic network",
                verdict=Verdict.TROUBLE,
                found=f"{variable}={value} is {wrong}: a training over several machines cannot connect",
                advice=f"unset {variable}: the interface of the route to the controller is taken",
            )
    head = urlsplit(config.node.head).hostname if config.node.head else None
    address = route_address(head or ELSEWHERE)
    name = None if address is None else interface_of(address)
    if address is None or name in (None, "lo"):
        sentence = "no route to other machines: elastic trainings stay on this one"
        return Finding(subject="elastic network", verdict=Verdict.ABSENT, found=sentence)
    own = socket.gethostname()
    loopback = only_here(own)
    sentence_of_route = (
        f"{address} ({name}) leads to other machines; sums take the interface that leads to the controller"
    )
    if chosen:
        sentence_of_route += f", but for {', '.join(f'{key}={value}' for key, value in chosen.items())}"
    if loopback is not None:
        sentence_of_route += f". {own} is {loopback} here: give `--listen` the address, not the name"
    return Finding(subject="elastic network", verdict=Verdict.GOOD, found=sentence_of_route)
