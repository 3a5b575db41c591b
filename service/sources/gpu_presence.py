"""Whether this machine has NVIDIA GPUs, and whether a driver is loaded for them: three answers, kept apart.

==================  ==========================================  ============================================
driver loaded       device on the PCI bus                       so
==================  ==========================================  ============================================
yes                 (not asked)                                 its GPUs are measured
no                  yes                                         a fault: the GPUs are there, and are unknown
no                  no, or all given to virtual machines        a machine without GPUs: nothing to measure
==================  ==========================================  ============================================

Only signs are looked at: no library is loaded, and nothing is asked of the driver.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from collector.model import Unavailable
from collector.reading import Reading
from collector.source import Source

DRIVER_SIGNS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))
"""The control device, the driver's /proc entry, and the GPU of Windows' subsystem for Linux."""
PCI_DEVICES = Path("/sys/bus/pci/devices")
NVIDIA_VENDOR = "0x10de"
DISPLAY_CLASS = "0x03"
"""PCI's base class of display controllers (VGA 0x0300, 3D 0x0302); a board's audio and USB have others."""
GIVEN_AWAY = "vfio-pci"
"""The kernel driver of a device that was given to a virtual machine: it is nobody's here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PciGpu:
    """An NVIDIA GPU on the bus; ``bound_to`` is its kernel driver, ``None``: none."""

    address: str
    bound_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPresence:
    """What was found; ``without_driver`` are the GPUs on the bus that no NVIDIA driver serves."""

    has_driver: bool
    without_driver: tuple[PciGpu, ...] = ()

    @property
    def fault(self) -> str | None:
        """What is wrong, and what to do; ``None`` where nothing is."""
        return None if not self.without_driver else _fault(self.without_driver)


class FaultNamed:
    """A source of this machine's GPUs: while it can't be read because no driver is loaded, it says so, with
    what to do, in words that stay the same from tick to tick (one gap, one alert)."""

    def __init__(self, source: Source, look: "Callable[[], GpuPresence] | None" = None) -> None:
        self._source, self._look = source, look or look_for_gpus

    @property
    def name(self) -> str:
        """The source's own name."""
        return self._source.name

    def read(self, now_ms: int) -> Reading | Unavailable:
        """The source's reading, or why there is none."""
        outcome = self._source.read(now_ms)
        if isinstance(outcome, Unavailable) and (fault := self._look().fault) is not None:
            return replace(outcome, reason=fault)
        return outcome

    def close(self) -> None:
        """Let go of the source."""
        self._source.close()


def has_driver() -> bool:
    """Whether an NVIDIA driver is loaded here, without loading its library: a device or its /proc entry."""
    return any(path.exists() for path in DRIVER_SIGNS)


def look_for_gpus(bus: Path = PCI_DEVICES) -> GpuPresence:
    """What this machine shows of NVIDIA GPUs; reads a few small files of /sys."""
    if has_driver():
        return GpuPresence(has_driver=True)
    return GpuPresence(has_driver=False, without_driver=tuple(_unserved(bus)))


def _unserved(bus: Path) -> Iterator[PciGpu]:
    for device in sorted(bus.glob("*")):
        if _content(device / "vendor") != NVIDIA_VENDOR or not _content(device / "class").startswith(
            DISPLAY_CLASS
        ):
            continue
        driver = device / "driver"
        bound_to = driver.resolve().name if driver.exists() else None
        if bound_to != GIVEN_AWAY:
            yield PciGpu(address=device.name, bound_to=bound_to)


def _content(file: Path) -> str:
    """The file's word; empty where it cannot be read: a device may go while it is looked at."""
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _fault(gpus: tuple[PciGpu, ...]) -> str:
    many = f"{len(gpus)} NVIDIA GPUs are" if len(gpus) > 1 else "an NVIDIA GPU is"
    places = ", ".join(gpu.address for gpu in gpus[:4]) + (", ..." if len(gpus) > 4 else "")
    others = sorted({gpu.bound_to for gpu in gpus if gpu.bound_to})
    instead = f" (bound to {', '.join(others)} instead)" if others else ""
    return (
        f"{many} on the PCI bus ({places}), and no NVIDIA driver is loaded{instead}. Load it (`modprobe "
        "nvidia`; after a new kernel its module may have to be built again, see `dkms status`), and look at "
        "`dmesg | grep -iE 'nvrm|nouveau'` for what it says"
    )
