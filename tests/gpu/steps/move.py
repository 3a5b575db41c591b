"""Strangers off the GPU and back: how long it takes, what goes along, and what breaks.

Host memory is touched first: a VM whose memory grows with use tells too little of it.
"""

import time
from typing import Any

from collector.procfs.checkpoint_blockers import available_bytes, entanglement
from tests.gpu import place, strangers
from tests.gpu.answers import Figure, Missing, is_so, told

SIZES_MIB = (1024,) if place.dry else (1024, 4096, 16384)
KINDS: dict[str, tuple[str, ...]] = {
    "training": ("train", "16"),
    "compiled training": ("compiled", "16"),
    "2 s of work in the queue": ("queued", "4096"),
    "2 loader workers": ("loaders", "1024"),
}
if not place.dry:  # a dry run's memory is the host's: neither differs from `hold` there
    KINDS |= {"expandable segments": ("hold", "4096"), "4 GiB pinned": ("pinned", "4096")}
GROWS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""JAX as a lease starts it: three quarters of a GPU would not fit into most hosts' memory."""
GONE_S = 30.0
SHORT_BYTES = 8 << 30
CHILDREN_TOLD = 2
"""A compiler starts a dozen alike."""


def main() -> dict[str, Any]:
    """Held memory of several sizes first, which nothing else shows; then kinds of programs.

    The first process that does not come back ends it: no other is taken off beside one that is stuck.
    """
    figures: list[Figure] = []
    for mib in SIZES_MIB:
        if (available_bytes() or 0) < mib * place.MIB * 2 + SHORT_BYTES and not place.dry:
            figures.append(told(f"hold {mib} MiB", "not tried: too little host memory"))
            continue
        figures += _to_and_fro(f"hold {mib} MiB", mib, "hold", mib)
        place.so_far(figures)
    for name, words in KINDS.items():
        settings = place.EXPANDABLE if "expandable" in name else {}
        figures += _to_and_fro(name, 0, *words, environment=settings)
        place.so_far(figures)
    lacking = place.lacking("jax")
    if lacking is None:
        figures += _to_and_fro("JAX", 0, load="jaxhog", environment=GROWS)
    else:
        figures.append(told("JAX", f"not tried: {lacking}"))
    return {"figures": figures}


def _to_and_fro(
    name: str, mib: int, *words: object, load: str = "work", environment: dict[str, str] | None = None
) -> list[Figure]:
    moved = place.Load(load, *words, environment=environment)
    try:
        return _moved(name, mib, moved, queued="queued" in words)
    finally:
        _let_go(moved)


def _moved(name: str, mib: int, load: place.Load, *, queued: bool) -> list[Figure]:
    local, back = strangers.checkpointer(), True
    try:
        before = load.ask("sum")["sum"]
        process = strangers.seen(load.pid)
        now = entanglement(load.pid)
        signs = [
            told(f"{name}: unified memory mapped", None if now is None else now.managed_bytes, "bytes"),
            told(f"{name}: segments of shared CUDA memory", None if now is None else now.shared_tensors),
            told(
                f"{name}: children with the GPU open",
                None if now is None else f"{now.others}, {now.inherited}",
            ),
        ]
        if now is not None:
            signs += [
                told(f"{name}: the child {pid}", strangers.gpu_signs(pid))
                for pid in now.others[:CHILDREN_TOLD]
            ]
        why = strangers.refusal(local, process)
        if why is not None:
            return [*signs, told(f"{name}: refused by us", why)]
        if queued:
            load.ask("queue")
        paused = strangers.moved(local, "pause", process)
        back = False
        if not paused.ok:
            back = paused.undone
            return [*signs, is_so(f"{name}: pause", paused.found, "done")]
        gone = _is_gone(load.pid)
        resumed = strangers.moved(local, "resume", process)
        back = resumed.ok
        figures = [
            is_so(f"{name}: memory left the GPU", gone, True),
            is_so(f"{name}: resume", resumed.ok, True),
        ]
        if resumed.ok:
            figures.append(is_so(f"{name}: the same numbers", load.ask("sum")["sum"], before))
        gib = (process.memory_bytes or 0) / place.GIB
        for verb, deed in (("off", paused), ("back", resumed)):
            spent = sum(deed.seconds.values())
            figures.append(told(f"{name}: {verb}, a GiB", spent / gib, "s"))
        figures.append(told(f"{name}: lock", paused.seconds.get("lock"), "s"))
        if mib and not place.dry:
            took = strangers.resident_bytes(load.pid) / place.MIB
            figures.append(told(f"{name}: its host memory afterwards", took, "MiB"))
        return [*signs, *figures]
    finally:
        if not back:  # a process that is paused cannot end: its last calls into CUDA would wait
            strangers.moved(local, "resume", process)


def _is_gone(pid: int) -> bool:
    until_s = time.monotonic() + GONE_S
    while place.held_bytes(pid):
        if time.monotonic() > until_s:
            return False
        time.sleep(0.2)
    return True


def _let_go(load: place.Load) -> None:
    """By its pipe, or SIGTERM: one that CUDA restored is not killed."""
    status = load.end()
    if status is None:
        raise Missing(f"process {load.pid} does not end, and is not killed: leave it alone")
