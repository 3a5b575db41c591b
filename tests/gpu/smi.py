"""nvidia-smi of a dry run: the two commands that the steps give, answered from the stand-in driver's state.

python -m tests.gpu.smi -i 0 --query-gpu=memory.used,power.draw,utilization.gpu --format=...
python -m tests.gpu.smi dmon -i 0 -s p -c 2 --gpm-metrics 1,2,3,5,10
"""

import sys
from collections.abc import Sequence

from tests.gpu import place


def main(argv: Sequence[str]) -> int:
    """Print as nvidia-smi does."""
    import pynvml

    handle = place.nvml_handle()
    power_w = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
    if argv[0] != "dmon":
        used = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used // place.MIB
        busy = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
        print(f"{used}, {power_w:.2f}, {busy}")
        return 0
    numbers = [int(each) for each in argv[argv.index("--gpm-metrics") + 1].split(",")]
    print("# gpu    pwr  " + "  ".join(f"gpm:{number}" for number in numbers))
    print("# Idx      W  " + "  ".join("GPM:%" for _ in numbers))
    for _ in range(int(argv[argv.index("-c") + 1])):
        print(f"    0 {power_w:6.0f} " + " ".join(f"{value:6.2f}" for value in place.gpm_percents(numbers)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
