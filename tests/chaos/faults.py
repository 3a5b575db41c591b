"""The faults of a chaos run: each does something bad once, and says whether what must hold did hold.

What an attacker tries is tried with the uid of an account that owns nothing. A fault that succeeds in what it
should not is a failure of the run.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.chaos.exporter import MODES, Exporter
from tests.chaos.site import ATTACKER, ROOT, Site

FLOOD = "flood"
"""The name of the attacker's own jobs."""

BOUNDED = (0, 429, 503)
"""What an attacker meets who has asked for too much before: hung up on, or told to wait."""

Fault = Callable[[Site, Exporter, random.Random], list[str]]
"""Answers with what went wrong, empty when nothing did."""


def kill_service(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """kill -9 of the service, started again after a moment."""
    site.kill_service(signal.SIGKILL)
    time.sleep(dice.uniform(0, 2))
    return _again(site)


def restart_service(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """An ordinary restart of the service."""
    site.kill_service(signal.SIGTERM)
    time.sleep(dice.uniform(0, 1))
    return _again(site)


def freeze_service(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """The service stands still for some seconds, as on a machine that swaps."""
    assert site.service is not None
    site.goes_down()
    with _stopped(site.service.pid):
        time.sleep(dice.uniform(0.5, 4))
    return [] if site.wait_for_answer() else ["the service does not answer after it stood still"]


def kill_launcher(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """kill -9 of a launcher: its workers have to end with it."""
    running = site.running()
    if running:
        victim = dice.choice(running)
        victim.hurt = True
        victim.process.kill()
    return []


def kill_worker(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """kill -9 of a job's worker."""
    workers = site.workers()
    if workers:
        key = dice.choice(sorted(workers))
        next(each for each in site.launched if each.key == key).hurt = True
        with suppress(ProcessLookupError):
            os.kill(workers[key], signal.SIGKILL)
    return []


def freeze_launcher(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """A launcher stands still for less than the service's patience."""
    running = site.running()
    if running:
        with _stopped(dice.choice(running).process.pid):
            time.sleep(dice.uniform(0.5, 3))
    return []


def cancel_job(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """An operator cancels a job, waiting or running."""
    jobs = site.jobs("?ended=false")
    if jobs:
        row = dice.choice(jobs)
        name = row["submission"]["name"]
        for each in site.launched:
            if each.key == name:
                each.hurt = True
        site.ask("POST", f"/v1/jobs/{row['job']}/cancel", {"because": "chaos"})
    return []


def break_exporter(_: Site, exporter: Exporter, dice: random.Random) -> list[str]:
    """The other machine's exporter says nonsense, nothing, too much, or is slow; or is well again."""
    exporter.mode = dice.choice(MODES)
    return []


def flood(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """An account submits as many large jobs as it is let, none of which can ever run."""
    return _attack(site, "flood", dice)


def hold_connections(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """An account keeps hundreds of idle connections for some seconds."""
    return _attack(site, "hold", dice)


def forge(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """An account reports on, cancels and claims other people's jobs, with numbers beyond all bounds."""
    return _attack(site, "forge", dice)


def claim(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """After a restart of the service, an account says that it has held every GPU for long."""
    site.kill_service(signal.SIGKILL)
    wrong = _again(site)
    return [*wrong, *_attack(site, "claim", dice)]


def garbage(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """Bytes that are no HTTP on both listeners."""
    return _attack(site, "garbage", dice)


FAULTS: tuple[tuple[Fault, float], ...] = (
    (kill_service, 2.0),
    (restart_service, 1.0),
    (freeze_service, 1.0),
    (kill_launcher, 2.0),
    (kill_worker, 2.0),
    (freeze_launcher, 2.0),
    (cancel_job, 2.0),
    (break_exporter, 1.0),
    (flood, 1.0),
    (hold_connections, 1.0),
    (forge, 2.0),
    (claim, 1.0),
    (garbage, 1.0),
)
"""How often each comes, relative to the others."""


def _again(site: Site) -> list[str]:
    site.start_service()
    return [] if site.wait_for_answer() else ["the service did not come back"]


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _attack(site: Site, what: str, dice: random.Random) -> list[str]:
    """Run an attack as the attacker's account; what it got that it should not have."""
    seed = str(dice.randrange(1 << 30))
    others = [row for row in site.jobs("?ended=false") or () if row["submission"]["name"] != FLOOD]
    jobs = json.dumps([row["job"] for row in others])
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), what, str(site.socket), seed, jobs],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        user=ATTACKER,
        group=ATTACKER,
        extra_groups=[],
        check=False,
    )
    if done.returncode != 0:
        return [f"the attack {what} broke: {done.stderr[-300:]}"]
    return [f"{what}: {line}" for line in done.stdout.splitlines()]


def _ask(path: str, method: str, at: str, body: object = None) -> tuple[int, str]:
    """Status and text; 0 where the service refused the connection or hung up."""
    from tests.chaos.site import UnixHttp

    connection = UnixHttp(Path(path), 10)
    try:
        connection.request(
            method, at, None if body is None else json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except OSError:
        return 0, ""
    finally:
        connection.close()


def _flooding(path: str, dice: random.Random, _: list[str]) -> None:
    """Prints nothing: submitting is allowed, and what it must not do is seen by the others' waits."""
    for _n in range(60):
        body = {"command": ["x" * 200_000], "project": "p", "min_gpus": 500, "max_gpus": 500, "name": FLOOD}
        _ask(path, "POST", "/v1/jobs", body)


def _holding(path: str, dice: random.Random, _: list[str]) -> None:
    held = []
    for _n in range(400):
        each = socket.socket(socket.AF_UNIX)
        with suppress(OSError):
            each.settimeout(1)
            each.connect(path)
            held.append(each)
    time.sleep(dice.uniform(1, 4))


def _forging(path: str, dice: random.Random, jobs: list[str]) -> None:
    """Prints each order or report about somebody else's job that was accepted."""
    launcher = {"node": socket.gethostname(), "pid": 1, "started_ms": 1}
    for job in jobs[:20]:
        report = {
            "at_ms": time.time_ns() // 10**6,
            "launcher": launcher,
            "state": dice.choice(["running", "ended", "paused", "pending"]),
            "acknowledged": dice.choice([0, 1, 2**31, 2**53, -1]),
            "gpus": [],
            "pids": [1],
        }
        tries: tuple[tuple[str, dict[str, Any]], ...] = (
            ("reports", report),
            ("cancel", {"because": "mine"}),
            ("pause", {}),
            ("resize", {"gpus": 1}),
            ("keep", {"hours": 24}),
        )
        for verb, body in tries:
            status, _text = _ask(path, "POST", f"/v1/jobs/{job}/{verb}", body)
            if 200 <= status < 300:
                print(f"{verb} of {job} was accepted with {status}")


def _claiming(path: str, dice: random.Random, _: list[str]) -> None:
    """Prints each GPU that a job of the attacker's holds and was never given; its job is cancelled then."""
    wanted = {
        "command": ["x"],
        "project": f"uid-{os.getuid()}",
        "min_gpus": 400,
        "max_gpus": 400,
        "name": FLOOD,
    }
    status, text = _ask(path, "POST", "/v1/jobs", wanted)
    if status in BOUNDED:
        return
    if not 200 <= status < 300:
        sys.exit(f"a job of the attacker's own was not taken: {status} {text[:200]}")
    job = json.loads(text)["job"]
    _status, known = _ask(path, "GET", "/v1/query/gpus_now")
    uuids = [row["uuid"] for row in json.loads(known)] if known.startswith("[") else []
    for handled in (0, 1, 2**31, 2**53):
        report = {
            "at_ms": time.time_ns() // 10**6,
            "launcher": {"node": socket.gethostname(), "pid": os.getpid(), "started_ms": 1},
            "state": "running",
            "acknowledged": handled,
            "gpus": uuids,
            "pids": [os.getpid()],
        }
        _ask(path, "POST", f"/v1/jobs/{job}/reports", report)
    _status, leases = _ask(path, "GET", "/v1/leases")
    _status, entry = _ask(path, "GET", f"/v1/jobs/{job}")
    if f'"{job}"' in leases and json.loads(entry).get("directive") is None:
        print(f"{job} holds GPUs that it was never given")
    _ask(path, "POST", f"/v1/jobs/{job}/cancel", {"because": "over"})


def _garbage(path: str, dice: random.Random, _: list[str]) -> None:
    for _n in range(50):
        with socket.socket(socket.AF_UNIX) as each, suppress(OSError):
            each.settimeout(1)
            each.connect(path)
            each.sendall(dice.randbytes(dice.randrange(1, 4_000)) + b"\r\n\r\n")
            each.recv(4_096)


ATTACKS = {"flood": _flooding, "hold": _holding, "forge": _forging, "claim": _claiming, "garbage": _garbage}

if __name__ == "__main__":
    ATTACKS[sys.argv[1]](sys.argv[2], random.Random(int(sys.argv[3])), json.loads(sys.argv[4]))
