"""What each call into libcuda is told to take, beside cuda.h as it was read by hand (CUDA 13.0).

Without it ctypes passes an address as an int of 32 bits. That shows only where addresses are larger.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from advisor.engines import cuda_checkpoint_child
from tests.gpu import stream_words

pytestmark = pytest.mark.quick

INT, UINT, SIZE = "int", "unsigned int", "size_t"
ADDRESS, DEVICE, FUNCTION = "a pointer", "CUdeviceptr", "CUhostFn"
BYTES = {INT: 4, UINT: 4, SIZE: 8, ADDRESS: 8, DEVICE: 8, FUNCTION: 8}
"""On a 64-bit machine; ``CUresult`` is an enumeration, so an int."""
OF_CHECKPOINTS: Mapping[str, Sequence[str]] = {
    "cuInit": (UINT,),
    "cuGetErrorName": (INT, ADDRESS),
    "cuCheckpointProcessGetState": (INT, ADDRESS),
    "cuCheckpointProcessLock": (INT, ADDRESS),
    "cuCheckpointProcessCheckpoint": (INT, ADDRESS),
    "cuCheckpointProcessRestore": (INT, ADDRESS),
    "cuCheckpointProcessUnlock": (INT, ADDRESS),
}
OF_STREAMS: Mapping[str, Sequence[str]] = {
    "cuMemHostRegister_v2": (ADDRESS, SIZE, UINT),
    "cuMemHostUnregister": (ADDRESS,),
    "cuMemHostGetDevicePointer_v2": (ADDRESS, ADDRESS, UINT),
    "cuStreamWaitValue32_v2": (ADDRESS, DEVICE, UINT, UINT),
    "cuStreamWriteValue32_v2": (ADDRESS, DEVICE, UINT, UINT),
    "cuLaunchHostFunc": (ADDRESS, FUNCTION, ADDRESS),
    "cuGetErrorName": (INT, ADDRESS),
}


class Noting:
    """A library whose functions say what they were told of themselves, as a ctypes one has nothing else."""

    def __init__(self, code: int = 0) -> None:
        self.functions: dict[str, Any] = {}
        self._code = code

    def __getattr__(self, name: str) -> Any:
        code = self._code

        class Function:
            argtypes: Sequence[Any] | None = None
            restype: Any = None

            def __call__(self, *arguments: Any) -> int:
                return code

        return self.functions.setdefault(name, Function())


def taken(function: Any) -> list[int]:
    assert function.argtypes is not None, "ctypes would guess"
    return [ctypes.sizeof(each) for each in function.argtypes]


def test_the_checkpoint_calls_take_what_the_header_says(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Noting()
    monkeypatch.setattr(cuda_checkpoint_child.ctypes, "CDLL", lambda name: library)
    driver = cuda_checkpoint_child.LibraryDriver()
    driver.lock(1, 10)
    for call in (driver.checkpoint, driver.restore, driver.unlock):
        call(1)
    assert set(library.functions) == set(OF_CHECKPOINTS), "a call that nobody compared with the header"
    for name, parameters in OF_CHECKPOINTS.items():
        assert taken(library.functions[name]) == [BYTES[each] for each in parameters], name
        assert library.functions[name].restype is ctypes.c_int, name


def test_the_arguments_of_a_lock_have_the_headers_layout() -> None:
    """``timeoutMs``, ``reserved0`` and seven words of 64 bits: 64 bytes."""
    assert ctypes.sizeof(cuda_checkpoint_child.ARGUMENTS["cuCheckpointProcessLock"][1]._type_) == 64  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [each for each in OF_STREAMS if each != "cuGetErrorName"])
def test_the_stream_calls_take_what_the_header_says(name: str) -> None:
    words = stream_words.Words.__new__(stream_words.Words)
    words._library = Noting(code=1)
    with pytest.raises(stream_words.Refused, match=name):
        words._call(name, *[None for _ in OF_STREAMS[name]])
    assert set(stream_words.SIGNATURES) == set(OF_STREAMS)
    for called in (name, "cuGetErrorName"):
        function = words._library.functions[called]
        assert taken(function) == [BYTES[each] for each in OF_STREAMS[called]], called
        assert function.restype is ctypes.c_int
