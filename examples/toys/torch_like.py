"""A toy that holds GPU memory as PyTorch does: what a peak once took stays cached, until it is asked back.

It hears its launcher where ``fallow.listen()`` would have it (FALLOW_JOB_SOCKET), with the library's own
socket: ``release-caches`` gives back all that its tensors don't take now, ``status`` says both.

    python -m examples.toys.torch_like --needs 8 --peak 50
"""

import argparse
import sys
from collections.abc import Sequence

from examples.toys import toil
from examples.toys.board import CONTEXT_BYTES, GIB, Device
from fallow.control_server import Answer


def main() -> None:
    """Take the peak once, go on with what is needed, and keep the rest in the cache."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peak", type=float, default=50.0, help="GiB that its tensors once took")
    flags, rest = parser.parse_known_args(sys.argv[1:])
    asked = toil.options("torch-like", rest)
    toil.look_like("libtorch_cuda.so")
    devices = toil.devices_or_end()
    for device in devices:
        toil.take(device, max(asked.needs_bytes, int(flags.peak * GIB)), asked)
        toil.say(f"torch-like: took {device.held_bytes / GIB:.1f} GiB of {device.uuid}")
    toil.work(asked, devices, memory_of(devices, asked.needs_bytes))


def memory_of(devices: Sequence[Device], needs_bytes: int) -> toil.Hear:
    """What it answers its launcher: all that is known of its memory, and giving some back."""

    def answer(words: Sequence[str], step: int) -> Answer:
        before = sum(device.held_bytes for device in devices)
        match words:
            case ["release-caches"]:
                for device in devices:
                    device.release(max(0, device.held_bytes - CONTEXT_BYTES - needs_bytes))
                after = sum(device.held_bytes for device in devices)
                toil.say(f"torch-like: gave {(before - after) / GIB:.1f} GiB back")
                return {"before_bytes": before, "after_bytes": after, "freed_bytes": before - after}
            case ["status"]:
                return toil.status(step) | {"held": before, "needed": needs_bytes}
            case _:
                return {"error": f"unknown request {' '.join(words)!r}: release-caches or status"}

    return answer


if __name__ == "__main__":
    main()
