"""The same training under torchrun, resized as torchrun knows how: agents come and go, all workers restart.

Its own faults are cured as far as options go, so that it is measured at its best: the rendezvous store isn't
shared (2.13's scale-up hangs otherwise), the rendezvous waits 1 s for stragglers instead of 30, where it
shrinks a lost agent is noticed after 3 s instead of 15 (so short a keep-alive hung growing in 2 of 2 tries,
2026-11-21), and the snapshot is written only when a change is about to come.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.elastic import pauses
from bench.elastic.ours import PATIENCE_S, STEPS_A_WORLD
from bench.elastic.pauses import Change

SCRIPT = Path(__file__).with_name("torchrun_training.py")
GROWING = "last_call_timeout=1"
SHRINKING = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"


def change(size: str, old: int, new: int) -> Change:
    """What one change cost, with ``--nnodes=1:N`` for the larger world. Raises TimeoutError if it hangs."""
    most, conf = max(old, new), GROWING if new > old else SHRINKING
    with tempfile.TemporaryDirectory() as name, socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
        chosen.close()
        folder = Path(name)
        agents: list[subprocess.Popen[bytes]] = []
        try:
            agents += [_agent(folder, size, most, port, conf) for _ in range(old)]
            _wait_for(folder, old, 0.0)
            _snapshot(folder)
            at_s = time.monotonic()
            agents += [_agent(folder, size, most, port, conf) for _ in range(new - old)]
            for agent in agents[new:old]:
                agent.terminate()
            _wait_for(folder, new, at_s)
        finally:
            for agent in agents:
                agent.kill()
            for pid in _workers(folder):
                _kill(pid)
            for agent in agents:
                agent.wait()
        return pauses.change(pauses.read(folder), at_s, old, new, restarts=True)


def _agent(folder: Path, size: str, most: int, port: int, conf: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "torch.distributed.run", f"--nnodes=1:{most}", "--nproc-per-node=1"]
    words += ["--max-restarts=20", "--monitor-interval=0.1", "--rdzv-backend=c10d", "--rdzv-id=bench"]
    words += [f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf={conf}"]
    environment = {
        **os.environ,
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    log = (folder / "agents.log").open("ab")
    return subprocess.Popen([*words, str(SCRIPT), str(folder), size], env=environment, stdout=log, stderr=log)


def _wait_for(folder: Path, world: int, since_s: float) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        stamps = [stamp for steps, _ in pauses.read(folder).values() for stamp in steps]
        if sum(s.world_size == world and s.began_s > since_s for s in stamps) >= STEPS_A_WORLD * world:
            return
        time.sleep(0.1)
    tail = (folder / "agents.log").read_text()[-2000:]
    raise TimeoutError(f"torchrun made no {STEPS_A_WORLD} steps with {world} workers: {tail}")


def _snapshot(folder: Path) -> None:
    (folder / "wanted").touch()
    while (folder / "wanted").exists():
        time.sleep(0.01)


def _workers(folder: Path) -> list[int]:
    return [int(path.stem.rsplit("-", 1)[1]) for path in folder.glob("*.steps")]


def _kill(pid: int) -> None:
    try:
        if str(SCRIPT) in Path(f"/proc/{pid}/cmdline").read_text():
            os.kill(pid, 9)
    except (FileNotFoundError, ProcessLookupError):
        return
