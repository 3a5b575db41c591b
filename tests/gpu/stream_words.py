"""Words of a shared page that a GPU waits for and writes, in the order of its stream; by libcuda's own calls.

Signatures and numbers are those of ``cuda.h``; a call that is refused says its name and code. In a dry run a
thread takes the stream's place.
"""

import contextlib
import ctypes
import mmap
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu import place

WORD = 4
PORTABLE_AND_MAPPED = 0x01 | 0x02
GREATER_OR_EQUAL = WRITE_DEFAULT = 0
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""``CUhostFn``: it may not call CUDA."""
POINTER = ctypes.c_void_p
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuMemHostRegister_v2": (POINTER, ctypes.c_size_t, ctypes.c_uint),
    "cuMemHostUnregister": (POINTER,),
    "cuMemHostGetDevicePointer_v2": (ctypes.POINTER(ctypes.c_uint64), POINTER, ctypes.c_uint),
    "cuStreamWaitValue32_v2": (POINTER, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint),
    "cuStreamWriteValue32_v2": (POINTER, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint),
    "cuLaunchHostFunc": (POINTER, HOST_FUNCTION, POINTER),
    "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
}


class Refused(RuntimeError):
    """libcuda said no; the message has the call and the code."""


class Words:
    """The page at ``path``, registered with the GPU, and a stream that doesn't wait for others.

    Where it is ``refused``, words of this process alone are in its place.
    """

    refused = ""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR)
        self._memory = mmap.mmap(descriptor, 0)
        os.close(descriptor)
        self._kept: list[Any] = []
        self.host = memoryview(self._memory).cast("I")
        if place.dry:
            self._todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
            threading.Thread(target=self._do_all, daemon=True).start()
            return
        torch = place.torch()
        self.stream = torch.cuda.Stream(place.torch_device())
        self._library = ctypes.CDLL("libcuda.so.1")
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        device = ctypes.c_uint64(0)
        try:
            self._call("cuMemHostRegister_v2", self._at, mmap.PAGESIZE, PORTABLE_AND_MAPPED)
            self._call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), self._at, 0)
            self._device = device.value
        except Refused as error:
            self.refused = str(error)
            own = torch.zeros(mmap.PAGESIZE // WORD, dtype=torch.int32).pin_memory()
            self._kept.append(own)
            self.host, self._device = memoryview(own.numpy()).cast("B").cast("I"), own.data_ptr()

    def close(self) -> None:
        """The GPU lets go of the page, when its stream is through."""
        if not place.dry:
            self.stream.synchronize()
            if not self.refused:
                self._call("cuMemHostUnregister", self._at)

    def wait(self, word: int, value: int) -> None:
        """What comes behind it in the stream waits until the word is at least so much."""
        if place.dry:
            self._todo.put(lambda: self._until(word, value))
            return
        where = self._device + WORD * word
        self._call("cuStreamWaitValue32_v2", self.stream.cuda_stream, where, value, GREATER_OR_EQUAL)

    def write(self, word: int, value: int) -> None:
        """The word becomes that when all before it in the stream is done, and is seen by the host."""
        if place.dry:
            self._todo.put(lambda: self.host.__setitem__(word, value))
            return
        where = self._device + WORD * word
        self._call("cuStreamWriteValue32_v2", self.stream.cuda_stream, where, value, WRITE_DEFAULT)

    def call(self, function: Callable[[], None]) -> None:
        """A thread of the driver calls it when all before it in the stream is done."""
        if place.dry:
            self._todo.put(function)
            return
        made = HOST_FUNCTION(lambda _: function())
        self._kept.append(made)  # else it could be gone when the driver calls it
        self._call("cuLaunchHostFunc", self.stream.cuda_stream, made, None)

    def event(self, *, blocking: bool) -> Callable[[], object]:
        """Torch's event here in the stream: call it to wait. ``blocking``: the thread sleeps meanwhile."""
        if place.dry:
            came = threading.Event()
            self._todo.put(came.set)
            return came.wait
        made = place.torch().cuda.Event(blocking=blocking)
        made.record(self.stream)
        wait: Callable[[], object] = made.synchronize
        return wait

    @contextlib.contextmanager
    def queued(self) -> Any:
        """Torch's work within goes into this stream."""
        if place.dry:
            yield
            return
        with place.torch().cuda.stream(self.stream):
            yield

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name)
        function.argtypes, function.restype = SIGNATURES[name], ctypes.c_int
        code = function(*arguments)
        if code:
            told = ctypes.c_char_p()
            names = self._library.cuGetErrorName
            names.argtypes, names.restype = SIGNATURES["cuGetErrorName"], ctypes.c_int
            names(code, ctypes.byref(told))
            raise Refused(f"{name}: error {code} {(told.value or b'').decode()}")

    def _do_all(self) -> None:
        while True:
            self._todo.get()()

    def _until(self, word: int, value: int) -> None:
        while self.host[word] < value:
            time.sleep(0.0001)
