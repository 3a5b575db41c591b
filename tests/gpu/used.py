"""The first GPU's memory in use, bytes, as a JSON line; ``null`` without one. A process: drivers crash."""

import json
import sys


def used_bytes() -> int | None:
    """By NVML."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except pynvml.NVMLError:
        return None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(used_bytes()) + "\n")
