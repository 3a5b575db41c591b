"""A background job's eyes: turns on a word of a page, or waits at the product's gate and launches a kernel.

    python -m tests.gpu.loads.gap_reader PAGE        then "turn WORD VALUE" or "gate"

It answers when it saw it, and when its kernel was launched, in nanoseconds of the steady clock.
"""

import mmap
import sys
import time
from pathlib import Path
from typing import Any

from fallow.idle_gaps.gate import Gate
from fallow.idle_gaps.page import attach
from tests.gpu import place
from tests.gpu.loads.pipe import Words, serve

LONGEST_S = 1.5
"""After it nothing comes any more."""


def main(path: str) -> None:
    """Look as told, until the pipe closes."""
    torch = place.torch()
    x = torch.zeros(1).to(place.torch_device())
    x.add_(1)
    place.synchronize()
    gate = Gate(attach(Path(path)))
    with Path(path).open("r+b") as file:
        words = memoryview(mmap.mmap(file.fileno(), 0)).cast("I")

    def turned(word: int, value: int) -> dict[str, Any]:
        until_ns = time.monotonic_ns() + int(LONGEST_S * 1e9)
        while words[word] < value:
            if time.monotonic_ns() > until_ns:
                return {"seen_ns": None}
        return {"seen_ns": time.monotonic_ns()}

    def passed() -> dict[str, Any]:
        gate.pass_through("piece")
        seen_ns = time.monotonic_ns()
        x.add_(1)
        launched_ns = time.monotonic_ns()
        gate.end_piece()
        return {"seen_ns": seen_ns, "launched_ns": launched_ns}

    def told(asked: Words) -> dict[str, Any]:
        return passed() if asked[0] == "gate" else turned(int(asked[1]), int(asked[2]))

    serve(told)


if __name__ == "__main__":
    main(*sys.argv[1:])
