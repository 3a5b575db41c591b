"""Builds the stand-in ``libnvidia-ml.so.1`` and changes, from a test, what it says while clients run on it.

``Driver(folder, gpus=2)`` makes a machine; ``driver.gpu(0).utilization = 80`` changes it live;
``driver.environment()`` is what a process needs to load it in place of a real driver.
"""

import ctypes
import hashlib
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.driver import layout

SOURCES = Path(__file__).parent
LIBRARY = "libnvidia-ml.so.1"
STATE_VARIABLE = "FALLOW_DRIVER_STATE"
GIB = 1 << 30
NOT_AVAILABLE = (1 << 64) - 1
ABORT, SEGFAULT = -1, -2
FOR_EVER = -1

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INSUFFICIENT_SIZE = 3, 4, 6, 7
DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 9, 13, 15, 999
XID = 8
RING_GPU, RING_MEMORY, RING_ENCODER, RING_DECODER = range(4)
GRAPHICS_UTIL, SM_UTIL, SM_OCCUPANCY, TENSOR_UTIL, DRAM_UTIL = 1, 2, 3, 5, 10
COMPUTE, GRAPHICS, BOTH, MPS = 1, 2, 3, 4
LAYOUT_R535, LAYOUT_SWAPPED = 1, 2


class CompilerMissing(Exception):
    """There is no C compiler to build the stand-in driver with; on Debian: apt-get install gcc."""


def build(*, old: bool = False) -> Path:
    """The folder that holds the built library, built once for each version of its sources."""
    files = sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.h")])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files) + bytes([old])).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"fallow-driver-{os.getuid()}-{digest}"
    if not (folder / LIBRARY).is_file():
        _compile([path for path in files if path.suffix == ".c"], folder, old)
    return folder


class Gpu:
    """One GPU of the stand-in driver; attributes are ``state.h``'s fields, read and written in place."""

    def __init__(self, driver: "Driver", slot: int) -> None:
        object.__setattr__(self, "slot", slot)
        object.__setattr__(self, "_driver", driver)
        object.__setattr__(self, "_state", driver.state.gpus[slot])

    slot: int
    _driver: "Driver"
    _state: Any

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._state, name)
        return value.decode() if isinstance(value, bytes) else value

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self._state, name):
            raise AttributeError(f"the stand-in driver's GPU has no field {name!r}")
        setattr(self._state, name, value.encode() if isinstance(value, str) else value)

    def ring(self, samples: Iterable[tuple[int, int]], ring: int = RING_GPU) -> None:
        """Replace a sample ring by (timestamp in us, percent), oldest first."""
        held = list(samples)[-layout.RING_SIZE :]
        for i, (ts_us, value) in enumerate(held):
            self._state.rings[ring][i] = layout.RingSample(ts_us, value, 0)
        self._state.ring_count[ring] = len(held)

    def metrics(self, **percent: float) -> None:
        """Switch GPM on and set its metrics: graphics, sm, occupancy, tensor, dram."""
        ids = {"graphics": 1, "sm": 2, "occupancy": 3, "tensor": 5, "dram": 10}
        self._state.gpm_supported = 1
        for name, value in percent.items():
            self._state.gpm[ids[name]] = value

    def process(
        self,
        pid: int,
        memory: int = GIB,
        kind: int = COMPUTE,
        *,
        instance: tuple[int, int] | None = None,
        sm: int = 0,
    ) -> None:
        """Add a process to the driver's list."""
        at = self._state.process_count
        gpu_instance, compute_instance = instance or (0xFFFFFFFF, 0xFFFFFFFF)
        self._state.processes[at] = layout.Listed(memory, pid, kind, gpu_instance, compute_instance, sm, 0)
        self._state.process_count = at + 1

    def no_processes(self) -> None:
        """Empty the driver's process list."""
        self._state.process_count = 0

    def used(self, samples: Iterable[tuple[int, int, int]]) -> None:
        """Replace the process utilization buffer by (timestamp in us, pid, SM percent)."""
        held = list(samples)
        for i, (ts_us, pid, sm) in enumerate(held):
            self._state.process_samples[i] = layout.ProcessUse(ts_us, pid, sm, 0, 0, 0, 0)
        self._state.process_sample_count = len(held)

    def partition(self, *profiles: tuple[str, int, int], gpm: float = -1.0) -> tuple[str, ...]:
        """Switch MIG on with instances (profile, compute slices, memory in GiB); their UUIDs."""
        self._state.mig_mode = 1
        uuids = []
        for i, (profile, slices, gib) in enumerate(profiles):
            part = self._state.instances[i]
            uuids.append(f"MIG-{self.slot:08x}-{i:04x}-5000-8000-{i:012x}")
            part.uuid, part.profile = uuids[-1].encode(), profile.encode()
            part.present, part.gpu_instance, part.compute_instance = 1, i + 1, 0
            part.gpu_slices = part.compute_slices = slices
            part.memory_total, part.memory_reserved, part.memory_used = gib * GIB, 0, 0
            for metric in range(layout.GPM_METRICS):
                part.gpm[metric] = gpm
        return tuple(uuids)

    def calls(self, *functions: str) -> int:
        """How often these functions (all of them, when none is named) were called on this GPU."""
        held = (f for f in self._driver.state.functions if f.name)
        return sum(f.per_gpu[self.slot] for f in held if not functions or f.name.decode() in functions)


class Driver:
    """A machine with GPUs that exist in one mapped file; ``close`` (or the ``with`` block) unmaps it."""

    def __init__(self, folder: Path, gpus: int = 1, *, old: bool = False) -> None:
        self.library = build(old=old)
        self.path = folder / "driver-state"
        self.path.write_bytes(bytes(ctypes.sizeof(layout.State)))
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.state = layout.State.from_buffer(self._map)
        self.state.magic, self.state.size = layout.MAGIC, ctypes.sizeof(layout.State)
        self.state.driver_version = b"470.57.02" if old else b"570.86.15"
        self.state.nvml_version = b"11.470.57.02" if old else b"12.570.86.15"
        self.state.cuda_version = 11040 if old else 12080
        self.state.gpu_count = gpus
        machine = hashlib.sha256(str(folder).encode()).hexdigest()[:4]
        for slot in range(layout.MAX_GPUS):
            self.state.order[slot] = slot
            _furnish(self.state.gpus[slot], slot, machine)

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the mapping; the file stays for clients that still run."""
        del self.state

    def environment(self, base: Mapping[str, str] = os.environ) -> dict[str, str]:
        """``base`` with what makes a process load this driver."""
        return {**base, **self.variables()}

    def variables(self) -> dict[str, str]:
        """The environment variables that make a process load this driver."""
        return {"LD_LIBRARY_PATH": str(self.library), STATE_VARIABLE: str(self.path)}

    def gpu(self, slot: int) -> Gpu:
        """The GPU in this slot; its index is another matter, see ``order``."""
        return Gpu(self, slot)

    @property
    def clock_us(self) -> int:
        """The driver's clock; 0 is the machine's own."""
        return int(self.state.clock_us)

    @clock_us.setter
    def clock_us(self, value: int) -> None:
        self.state.clock_us = value

    def hurry(self, speed: float, since_ms: int) -> None:
        """Let the driver's clock run so many times as fast since then, as a rehearsing service's does."""
        self.state.clock_since_us, self.state.clock_speed = since_ms * 1000, speed

    def order(self, *slots: int) -> None:
        """Which slots are there, in the order of their index."""
        self.state.gpu_count = len(slots)
        for index, slot in enumerate(slots):
            self.state.order[index] = slot

    def fail(
        self,
        function: str,
        code: int,
        *,
        gpu: int | None = None,
        times: int = FOR_EVER,
        delay_s: float = 0.0,
    ) -> None:
        """Make a function (or ``handle``, or ``field:N``) answer ``code``, after a delay; 0: only delay."""
        for slot in self.state.faults:
            if not slot.function or slot.remaining == 0:
                slot.gpu = -1 if gpu is None else gpu
                slot.code, slot.delay_us, slot.remaining = code, int(delay_s * 1e6), times
                slot.function = function.encode()
                return
        raise ValueError("no room for another fault")

    def heal(self) -> None:
        """Forget all faults."""
        for slot in self.state.faults:
            slot.remaining, slot.function = 0, b""

    def event(self, slot: int, data: int, kind: int = XID) -> None:
        """Raise an event; ``data`` is the XID."""
        at = self.state.event_count % layout.MAX_EVENTS
        self.state.events[at] = layout.EventSlot(kind, data, slot, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        self.state.event_count += 1

    def calls(self, function: str) -> int:
        """How often a function was called, by all processes together."""
        return sum(f.total for f in self.state.functions if f.name.decode() == function)

    def forget_calls(self) -> None:
        """Set all counts to zero; the names keep their places, as running clients know them."""
        for function in self.state.functions:
            function.total = 0
            for slot in range(layout.MAX_GPUS):
                function.per_gpu[slot] = 0


def _compile(sources: list[Path], folder: Path, old: bool) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise CompilerMissing(
            "no C compiler (cc) to build the stand-in driver; on Debian: apt-get install gcc"
        )
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{LIBRARY}.{os.getpid()}"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden"]
    flags += ["-DOLD_DRIVER"] if old else []
    name = f"-Wl,-soname,{LIBRARY}"
    subprocess.run([compiler, *flags, name, "-o", draft, *sources, "-lm"], check=True)
    draft.rename(folder / LIBRARY)


def _furnish(gpu: Any, slot: int, machine: str) -> None:
    """No two machines have GPUs of one UUID: services that lease the same one refuse each other."""
    gpu.uuid = f"GPU-{slot:08x}-{machine}-4000-8000-{slot:012x}".encode()
    gpu.name = b"NVIDIA H100 80GB HBM3"
    gpu.bus_id = f"00000000:{slot + 1:02X}:00.0".encode()
    gpu.memory_total, gpu.memory_reserved, gpu.memory_used = 80 * GIB, GIB // 2, 0
    gpu.energy_mj = 1_000_000
    gpu.temperature, gpu.sm_clock, gpu.memory_clock = 35, 345, 2619
    gpu.power_mw, gpu.power_limit_mw = 70_000, 700_000
    gpu.persistence, gpu.events_supported = 1, 1
    gpu.mig_mode, gpu.mig_max = 0, 7
    for metric in range(layout.GPM_METRICS):
        gpu.gpm[metric] = -1.0
