"""One device, or one MIG instance, and its reading: prepared once, then as few calls as possible. Child only.

Each part keeps its own capability: what the driver refuses for good is remembered with the code and not
asked again. Any answer that says the GPU is lost ends the reading, and with it every use of the handle.
"""

import ctypes
from typing import Any

from collector.sources.nvml import readers
from collector.sources.nvml.library import FUNCTION_NOT_FOUND, LOST, REFUSED, SUCCESS, Library
from collector.sources.nvml.processes import LISTS, USES, Listing, Uses, first_present, shares
from collector.sources.nvml.readers import GPU, MEMORY_CONTROLLER, SLOT, Gpm, Ring, is_supported, open_gpm
from collector.sources.nvml.wire import MEASURES

_GPM_SLOTS = tuple(SLOT[name] for name in readers.GPM)


_MEASURES = len(MEASURES)
_UTILIZATION, _CONTROLLER = SLOT["gpu_utilization"], SLOT["memory_controller"]
_UTILIZATION_MAX, _BUSY = SLOT["gpu_utilization_max"], SLOT["gpu_busy"]


class DeviceFailed(Exception):
    """The device answers no more; ``code`` says how. Lost for good when the code is in LOST."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {code}")
        self.call = call
        self.code = code


class Reading:
    """What one reading of a device brought, to be sent as it is."""

    __slots__ = ("flags", "processes", "row", "uses")

    def __init__(self) -> None:
        self.row: list[Any] = [None] * _MEASURES
        self.flags: list[str] = []
        self.processes: list[tuple[int, int | None, str]] | None = None
        self.uses: list[tuple[int, float]] | None = None


class Device:
    """A whole GPU, or a MIG instance when ``gpu_instance`` is given (then ``parent`` is the GPU's handle)."""

    def __init__(
        self, library: Library, handle: Any, *, parent: Any = None, gpu_instance: int | None = None
    ) -> None:
        self.handle = handle
        self.is_instance = gpu_instance is not None
        self.refused: dict[str, int] = {}
        self._library = library
        self._answers = 0
        self._transient: tuple[str, int] | None = None
        self._memory: readers.Memory | None = readers.Memory(library, handle)
        self._gpm = self._open_gpm(parent if self.is_instance else handle, gpu_instance)
        self._open_whole()
        self._lists = [Listing(first_present(library, names), handle, kind) for kind, names in LISTS]

    def read(self, now_us: int, width_us: int, *, processes: bool) -> Reading:
        """Everything this device can say. Raises DeviceFailed when it says nothing or is lost."""
        out = Reading()
        self._answers, self._transient = 0, None
        self._read_rings(out, width_us)
        self._read_memory(out)
        self._read_fields(out)
        self._read_scalars(out.row)
        self._read_gpm(out, now_us)
        if processes:
            self._read_processes(out, now_us, width_us)
        if self._answers == 0 and self._transient:
            raise DeviceFailed(*self._transient)
        return out

    def close(self) -> None:
        """Give back what the driver lent; not to be called on a lost device."""
        if self._gpm:
            self._gpm.close()

    def ways(self) -> dict[str, str]:
        """How each measure is got at present, by the driver's function."""
        ways = {scalar.name: scalar.function for scalar in self._scalars}
        ways.update(dict.fromkeys(self._fields.names, "nvmlDeviceGetFieldValues"))
        if self._memory:
            ways["memory"] = f"nvmlDeviceGetMemoryInfo version {self._memory.version}"
        if self._gpm:
            ways["gpm"] = "nvmlGpmMetricsGet"
        ways.update(dict.fromkeys(self._rings, "nvmlDeviceGetSamples"))
        if self._lists:
            ways["processes"] = "nvmlDeviceGetComputeRunningProcesses"
        if self._uses:
            ways["process_utilization"] = self._uses_by
        return ways

    def _open_gpm(self, handle: Any, gpu_instance: int | None) -> Gpm | None:
        code = is_supported(self._library, handle)
        if code == SUCCESS:
            gpm = open_gpm(self._library, handle, gpu_instance)
            if not isinstance(gpm, int):
                return gpm
            code = gpm
        if code in LOST:
            raise DeviceFailed("nvmlGpmQueryDeviceSupport", code)
        self.refused["gpm"] = code
        return None

    def _open_whole(self) -> None:
        """What only a whole device can be asked; an instance has none of it (its parent's board has)."""
        self._spare: list[readers.Scalar] = []
        self._uses_by = ""
        self._scalars: list[readers.Scalar] = []
        self._rings: dict[str, Ring] = {}
        self._uses: Uses | None = None
        self._spare_uses = list(USES)
        names = () if self.is_instance else tuple(readers.FIELD_IDS)
        self._fields = readers.Fields(self._library, self.handle, names)
        if self.is_instance:
            return
        occupied = set(names)
        for name, function, arguments, has_period in readers.SCALARS:
            scalar = readers.Scalar(
                self._library, self.handle, name, function, arguments, has_period=has_period
            )
            (self._spare if name in occupied else self._scalars).append(scalar)
            occupied.add(name)
        samples = self._library.call("nvmlDeviceGetSamples")
        self._rings = {
            "gpu_utilization": Ring(samples, self.handle, GPU),
            "memory_controller": Ring(samples, self.handle, MEMORY_CONTROLLER),
        }
        self._next_uses()

    def _read_rings(self, out: Reading, width_us: int) -> None:
        row = out.row
        refused: dict[str, int] = {}
        for name, ring in self._rings.items():
            code, window = ring.read(width_us)
            if code != SUCCESS:
                if self._gone("nvmlDeviceGetSamples", code):
                    refused[name] = code
                continue
            self._answers += 1
            if window is None:
                continue
            if name == "gpu_utilization":
                row[_UTILIZATION], row[_UTILIZATION_MAX] = window.mean, window.highest
                row[_BUSY] = window.busy
                if window.partial:
                    out.flags.append("ring-partial")
            else:
                row[_CONTROLLER] = window.mean
        for name, code in refused.items():
            self.refused[name] = code
            del self._rings[name]
        if row[_UTILIZATION] is None and not self.is_instance:
            self._read_instant(out)

    def _read_instant(self, out: Reading) -> None:
        """No sample is new, or the driver has no ring: the present value, marked as an instant."""
        if "utilization_rates" in self.refused:
            return
        pair = (ctypes.c_uint * 2)()
        code = self._library.call("nvmlDeviceGetUtilizationRates")(self.handle, pair)
        if code == SUCCESS:
            self._answers += 1
            out.row[SLOT["gpu_utilization"]] = pair[0]
            out.row[SLOT["memory_controller"]] = pair[1]
            out.flags.append("instant")
        elif self._gone("nvmlDeviceGetUtilizationRates", code):
            self.refused["utilization_rates"] = code

    def _read_memory(self, out: Reading) -> None:
        if not self._memory:
            return
        code = self._memory.read(out.row)
        if code == SUCCESS:
            self._answers += 1
            if self._memory.version == 1:
                out.flags.append("memory-v1")
        elif self._gone("nvmlDeviceGetMemoryInfo", code):
            self.refused["memory"] = code
            self._memory = None

    def _read_fields(self, out: Reading) -> None:
        code, failed = self._fields.read(out.row)
        if code == SUCCESS:
            self._answers += len(self._fields.names) - len(failed)
        for name, status in failed:
            if self._gone("nvmlDeviceGetFieldValues", status):
                self._give_up_field(name, status)

    def _read_scalars(self, row: list[Any]) -> None:
        refused: list[tuple[readers.Scalar, int]] = []
        for scalar in self._scalars:
            code = scalar.get()
            if code == SUCCESS:
                row[scalar.slot] = scalar.cell.value
                self._answers += 1
            elif self._gone(scalar.function, code):
                refused.append((scalar, code))
        for scalar, code in refused:
            self._scalars.remove(scalar)
            self._next_way(scalar.name, code)
        if refused:
            self._read_scalars(row)

    def _give_up_field(self, name: str, code: int) -> None:
        names = [other for other in self._fields.names if other != name]
        self._fields = readers.Fields(self._library, self.handle, names)
        self._next_way(name, code)

    def _next_way(self, name: str, code: int) -> None:
        spare = next((scalar for scalar in self._spare if scalar.name == name), None)
        if spare is None:
            self.refused[name] = code
            return
        self._spare.remove(spare)
        self._scalars.append(spare)

    def _read_gpm(self, out: Reading, now_us: int) -> None:
        if not self._gpm:
            return
        code, values = self._gpm.read(now_us)
        if code != SUCCESS:
            if self._gone("nvmlGpmSampleGet", code):
                self.refused["gpm"] = code
                self._gpm.close()
                self._gpm = None
            return
        self._answers += 1
        for slot, value in zip(_GPM_SLOTS, values or (), strict=False):
            out.row[slot] = value

    def _read_processes(self, out: Reading, now_us: int, width_us: int) -> None:
        entries: list[tuple[int, int | None, str]] = []
        answered = False
        refused: list[Listing] = []
        for listing in self._lists:
            code, processes_read = listing.read()
            if code == SUCCESS:
                answered = True
                entries += processes_read
            elif self._gone("nvmlDeviceGetComputeRunningProcesses", code):
                refused.append(listing)
            else:
                return
        if refused:
            self._lists = [listing for listing in self._lists if listing not in refused]
            if not self._lists:
                self.refused["processes"] = code
        if answered:
            out.processes = entries
            self._read_uses(out, now_us, width_us)

    def _read_uses(self, out: Reading, now_us: int, width_us: int) -> None:
        ring = self._rings.get("gpu_utilization")
        newest = ring.newest_us if ring and ring.newest_us else now_us
        while self._uses:
            code, after, entries = self._uses.read(newest - width_us)
            if code == SUCCESS:
                out.uses = shares(entries, after)
                return
            if not self._gone(self._uses_by, code):
                return
            if self.refused.get("process_utilization") is None or code != FUNCTION_NOT_FOUND:
                self.refused["process_utilization"] = code
            self._next_uses()

    def _next_uses(self) -> None:
        """The next function that may say what each process uses; none when all were refused."""
        self._uses = None
        if self._spare_uses:
            self._uses_by, versioned = self._spare_uses.pop(0)
            self._uses = Uses(self._library.call(self._uses_by), self.handle, versioned=versioned)

    def _gone(self, call: str, code: int) -> bool:
        """Whether to stop asking; a passing failure leaves NULL. Raises DeviceFailed when the GPU is lost."""
        if code in LOST:
            raise DeviceFailed(call, code)
        if code in REFUSED:
            return True
        self._transient = (call, code)
        return False
