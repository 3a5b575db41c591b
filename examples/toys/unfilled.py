"""A toy that never fills its GPU: it takes what it needs, and is a third busy at most, unless asked for more.

python -m examples.toys.unfilled --needs 10 --busy 30 --checkpoint step.json
"""

import sys

from examples.toys import toil
from examples.toys.board import GIB


def main() -> None:
    """Take memory on every GPU in sight, and train."""
    asked = toil.options("unfilled", ["--busy", "30", *sys.argv[1:]])
    devices = toil.devices_or_end()
    for device in devices:
        toil.take(device, asked.needs_bytes, asked)
        toil.say(f"unfilled: took {device.held_bytes / GIB:.1f} GiB of {device.uuid}")
    toil.work(asked, devices)


if __name__ == "__main__":
    main()
