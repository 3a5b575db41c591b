"""GPM (Hopper and later): how much of the SMs, tensor cores and memory was active between two samples.

The driver keeps the counters in samples that we hold; a metric is computed from two of them. Windows under
0.1 s give wild values (vendor's note at ``nvmlGpmMetricsGet``) and are skipped. Child only.
"""

import ctypes
import math
import struct
from typing import Any

import pynvml

from collector.nvml.library import NOT_SUPPORTED, SUCCESS, Library

METRICS = (1, 2, 3, 5, 10)
"""Graphics active, SM active, SM occupancy, any tensor pipe active, DRAM bandwidth used: percent."""

SHORTEST_US = 100_000
_METRIC = struct.Struct("Iid24x")
_HEADER_BYTES = 24


def is_supported(library: Library, handle: Any) -> int:
    """SUCCESS when the device has GPM, else the code that says why not."""
    support = pynvml.c_nvmlGpmSupport_t()
    support.version = pynvml.NVML_GPM_SUPPORT_VERSION
    code = library.call("nvmlGpmQueryDeviceSupport")(handle, pynvml.byref(support))
    if code != SUCCESS:
        return code
    return SUCCESS if support.isSupportedDevice else NOT_SUPPORTED


def open_gpm(library: Library, handle: Any, gpu_instance: int | None = None) -> "Gpm | int":
    """GPM for this device, or the code with which the driver refused room for its samples."""
    try:
        return Gpm(library, handle, gpu_instance)
    except pynvml.NVMLError as error:
        return int(error.value)


class Gpm:
    """The two samples of one device, or of one GPU instance when ``gpu_instance`` is given."""

    def __init__(self, library: Library, handle: Any, gpu_instance: int | None = None) -> None:
        self._get = library.call("nvmlGpmSampleGet" if gpu_instance is None else "nvmlGpmMigSampleGet")
        self._first = (handle,) if gpu_instance is None else (handle, gpu_instance)
        self._metrics = library.call("nvmlGpmMetricsGet")
        self._free = library.call("nvmlGpmSampleFree")
        self._samples = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        self._sampled_us: int | None = None
        self._request = _request()
        self._raw = memoryview(self._request).cast("B")

    def read(self, now_us: int) -> tuple[int, list[float | None] | None]:
        """(code, percent for each of METRICS); no values at the first call or in too short a window."""
        elapsed = None if self._sampled_us is None else now_us - self._sampled_us
        if elapsed is not None and 0 <= elapsed < SHORTEST_US:
            return SUCCESS, None
        older, newer = self._samples
        code = self._get(*self._first, newer)
        if code != SUCCESS:
            self._sampled_us = None
            return code, None
        self._samples = [newer, older]
        self._sampled_us = now_us
        if elapsed is None or elapsed < 0:
            return SUCCESS, None
        self._request.sample1, self._request.sample2 = older, newer
        code = self._metrics(ctypes.byref(self._request))
        return code, self._values() if code == SUCCESS else None

    def close(self) -> None:
        """Give the samples back to the driver."""
        for sample in self._samples:
            self._free(sample)
        self._samples = []

    def _values(self) -> list[float | None]:
        end = _HEADER_BYTES + len(METRICS) * _METRIC.size
        return [
            value if code == SUCCESS and math.isfinite(value) else None
            for _, code, value in _METRIC.iter_unpack(self._raw[_HEADER_BYTES:end])
        ]


def _request() -> Any:
    """Room for our metrics alone: the driver touches ``numMetrics`` of them, and the whole array is 23 kB."""

    class Request(ctypes.Structure):
        _fields_ = (
            ("version", ctypes.c_uint),
            ("numMetrics", ctypes.c_uint),
            ("sample1", pynvml.c_nvmlGpmSample_t),
            ("sample2", pynvml.c_nvmlGpmSample_t),
            ("metrics", pynvml.c_nvmlGpmMetric_t * len(METRICS)),
        )

    request = Request(version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(METRICS))
    for slot, metric in zip(request.metrics, METRICS, strict=True):
        slot.metricId = metric
    return request
