"""A program that computes, copies, trains or only holds, and says how fast it was when asked.

    python -m tests.gpu.loads.work product N | copy MIB | train BATCH [IDLE]
    python -m tests.gpu.loads.work compiled BATCH | queued N
    python -m tests.gpu.loads.work hold MIB | loaders MIB | pinned MIB | managed MIB

``loaders`` holds, and has two children that were forked when the GPU was open, as a data loader's are;
``pinned`` holds as much of the host's memory for the device, ``managed`` as much unified memory. ``queued``
rests, and puts two seconds of products into the device's queue when it is told ``queue``, without waiting.

``rest`` stops it and ``go`` lets it go on; ``rate`` answers units a second since it was last asked
(operations, bytes, samples); ``sum`` a number over what it holds, which has to be the same after any pause.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.gpu import place
from tests.gpu.loads.pipe import Words, serve

REST_S = 0.01
QUEUED_S = 2.0
CONTEXT_MIB = 500
"""What the dry run says of a context; the step ``holders`` measures a real one."""


class Work:
    """Something that is done again and again; ``units`` of it a time."""

    def __init__(self, once: Callable[[], object], units: float, held: Any, idle: float = 0.0) -> None:
        self._once, self._units, self._held, self._idle = once, units, held, idle
        self._done, self._since_s, self._rests = 0, time.monotonic(), False
        self.pinned: Any = None
        self.batches: Any = None

    def work(self) -> None:
        """Ten times, and wait for the device; then rest for its share of the time, or all of it."""
        if self._rests:
            time.sleep(REST_S)
            return
        begun_s = time.monotonic()
        for _ in range(10):
            self._once()
        place.synchronize()
        self._done += 10
        if self._idle:
            time.sleep((time.monotonic() - begun_s) * self._idle / (1 - self._idle))

    def speed(self) -> float:
        """How often it is done a second."""
        self.work()
        begun_s, before = time.monotonic(), self._done
        self.work()
        return (self._done - before) / (time.monotonic() - begun_s)

    def told(self, words: Words) -> dict[str, Any]:
        """``go``, ``rest``, ``rate``, ``queue`` or ``sum``."""
        if words[0] in ("go", "rest"):
            self._rests = words[0] == "rest"
            return {"rests": self._rests}
        if words[0] == "queue":
            until = self._done + (10 if place.dry else max(1, round(QUEUED_S * self.speed())))
            while self._done < until:
                self._once()
                self._done += 1
            return {"queued": until}
        if words[0] == "sum":
            return {"sum": float(self._held[:: 1 << 10].double().sum().item())}
        now_s = time.monotonic()
        rate = self._done * self._units / (now_s - self._since_s)
        self._done, self._since_s = 0, now_s
        return {"rate": rate}


def main(kind: str, *arguments: str) -> None:
    """Work of that kind, until the pipe closes."""
    torch, device = place.torch(), place.torch_device()
    mib = 0
    torch.manual_seed(0)
    rests = kind in ("hold", "loaders", "pinned", "managed", "queued")
    if kind in ("product", "queued"):
        n = 64 if place.dry else int(arguments[0])
        x, y = (_random(torch, device, n, n) for _ in range(2))
        work = Work(lambda: x @ y, 2.0 * n**3, x)
    elif kind == "copy":
        mib = int(arguments[0])
        source = _filled(torch, device, mib)
        into = torch.empty_like(source)
        work = Work(lambda: into.copy_(source), 2.0 * mib * place.MIB, source)
    elif kind in ("train", "compiled"):
        batch, idle = int(arguments[0]), float(arguments[1]) if len(arguments) > 1 else 0.0
        work = _training(torch, device, batch, idle, compiled=kind == "compiled" and not place.dry)
    else:
        mib = int(arguments[0])
        held = _filled(torch, device, mib)
        work = Work(lambda: None, 1.0, held)
        if kind == "loaders":
            place.synchronize()
            work.batches = _loader(torch)
        elif kind == "pinned" and not place.dry:
            work.pinned = torch.empty(mib * place.MIB, dtype=torch.uint8, pin_memory=True)
        elif kind == "managed" and not place.dry:
            _managed(mib)
    place.synchronize()
    place.pretend_process(os.getpid(), (mib + CONTEXT_MIB) * place.MIB)
    place.known_to_cuda()
    try:
        serve(work.told, None if rests else work.work)
    finally:
        place.pretend_process(os.getpid(), None)


def _managed(mib: int) -> None:
    """So much unified memory, by the driver's own call: PyTorch has none for it."""
    pointer, everybody = ctypes.c_uint64(0), 1  # CU_MEM_ATTACH_GLOBAL of cuda.h
    library = ctypes.CDLL("libcuda.so.1")
    code = library.cuMemAllocManaged(ctypes.byref(pointer), ctypes.c_size_t(mib * place.MIB), everybody)
    if code:
        raise RuntimeError(f"cuMemAllocManaged: CUDA error {code}")


def _loader(torch: Any) -> tuple[Any, Any]:
    """A data loader whose two workers were forked with the GPU open, and one of its batches."""
    rows = torch.utils.data.TensorDataset(torch.zeros(1 << 14, 16))
    batches = iter(torch.utils.data.DataLoader(rows, batch_size=64, num_workers=2))
    return batches, next(batches)


def _random(torch: Any, device: Any, *shape: int) -> Any:
    made = torch.randn(*shape).to(device)
    return made if place.dry else made.bfloat16()


def _filled(torch: Any, device: Any, mib: int) -> Any:
    """So many MiB of different numbers; a dry run's device is the host's memory, and holds a thousandth."""
    count = mib * place.MIB // 4
    if place.dry:
        return torch.arange(max(count >> 10, 1 << 10)).to(device)
    return torch.empty(count, dtype=torch.int32, device=device).random_()


def _training(torch: Any, device: Any, batch: int, idle: float, *, compiled: bool) -> Work:
    """ResNet-50 where torchvision is, else four convolutions; bf16 on a GPU."""
    try:
        if place.dry:
            raise ImportError
        from torchvision.models import resnet50

        net = resnet50().to(device)
        x = torch.randn(batch, 3, 224, 224, device=device)
    except ImportError:
        width = 4 if place.dry else 128
        layers = [torch.nn.Conv2d(3, width, 3), torch.nn.ReLU()]
        layers += [torch.nn.Conv2d(width, width, 3), torch.nn.ReLU()]
        net = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()).to(device)
        side = 8 if place.dry else 224
        x = torch.randn(batch, 3, side, side).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    forward = torch.compile(net) if compiled else net

    def once() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not place.dry):
            loss = forward(x).square().mean()
        loss.backward()
        optimizer.step()

    return Work(once, batch, x.flatten(), idle)


if __name__ == "__main__":
    main(*sys.argv[1:])
