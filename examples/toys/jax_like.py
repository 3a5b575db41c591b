"""A toy that takes GPU memory as JAX does: three quarters at its first operation, unless told otherwise.

``XLA_PYTHON_CLIENT_PREALLOCATE=false`` has it take what it needs, ``XLA_PYTHON_CLIENT_MEM_FRACTION`` another
part of the GPU (docs.jax.dev, "GPU memory allocation").

    python -m examples.toys.jax_like --needs 12
"""

import os
import sys

from examples.toys import toil
from examples.toys.board import GIB, Device


def main() -> None:
    """Take memory on every GPU in sight, and train."""
    asked = toil.options("jax-like", sys.argv[1:])
    toil.look_like("libjax_common.so")
    devices = toil.devices_or_end()
    for device in devices:
        toil.take(device, max(asked.needs_bytes, _pool(device)), asked)
        toil.say(f"jax-like: took {device.held_bytes / GIB:.1f} GiB of {device.uuid}")
    toil.work(asked, devices)


def _pool(device: Device) -> int:
    if os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "").lower() in ("false", "0"):
        return 0
    return int(device.total_bytes * float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.75")))


if __name__ == "__main__":
    main()
