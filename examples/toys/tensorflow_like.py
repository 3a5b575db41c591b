"""A toy that takes GPU memory as TensorFlow does: all of it at the first use, unless it may grow.

``TF_FORCE_GPU_ALLOW_GROWTH=true`` has it take what it needs; what it took it never gives back
(tensorflow.org/guide/gpu, "Limiting GPU memory growth").

    python -m examples.toys.tensorflow_like --needs 12 --busy 15
"""

import os
import sys

from examples.toys import toil
from examples.toys.board import CONTEXT_BYTES, GIB

LEFT_BYTES = GIB // 4
"""What TensorFlow leaves of a GPU that it takes as a whole."""


def main() -> None:
    """Take memory on every GPU in sight, and train."""
    asked = toil.options("tensorflow-like", sys.argv[1:])
    toil.look_like("libtensorflow_framework.so.2")
    grows = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() == "true"
    devices = toil.devices_or_end()
    for device in devices:
        whole = device.free_bytes - CONTEXT_BYTES - LEFT_BYTES
        toil.take(device, asked.needs_bytes if grows else max(asked.needs_bytes, whole), asked)
        toil.say(f"tensorflow-like: took {device.held_bytes / GIB:.1f} GiB of {device.uuid}")
    toil.work(asked, devices)


if __name__ == "__main__":
    main()
