"""NVML's return codes in words that say what to do next. Pure."""

LIBRARY_NOT_FOUND = 12
CONTAINER_ADVICE = (
    "in a container, `systemctl daemon-reload` on the host takes the GPUs away "
    "until the container is restarted"
)

_WORDS = {
    1: "the driver was unloaded or reset under us",
    3: "not supported by this device or driver",
    4: "no permission; run as a user who may open /dev/nvidiactl, or lift the driver's restriction",
    9: "the NVIDIA kernel driver is not loaded; run nvidia-smi, then `modprobe nvidia`",
    10: "the driver did not answer in time",
    12: "libnvidia-ml.so.1 was not found; install the NVIDIA driver, or start the container with --gpus all",
    13: "this driver is too old to have the function",
    15: "the GPU is lost (fell off the bus); look for Xid 79 in the kernel log, then reset or reboot",
    16: "the GPU needs a reset (nvidia-smi --gpu-reset) or the machine a reboot",
    17: "the operating system blocked the request; look at device permissions and SELinux",
    18: "library and kernel driver have different versions, as after an update; reboot or reload the driver",
    25: "this driver has another version of the structure",
    28: "the GPU is no longer found",
    999: "the driver answered 'unknown error'",
}

_XIDS = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "preemptive cleanup after an earlier error",
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "row remapping recorded",
    64: "row remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high single-bit ECC error rate",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "GSP RPC timeout",
    120: "GSP error",
}
"""After the vendor's list of Xid errors (docs.nvidia.com/deploy/xid-errors); only what a reader may meet."""


def explain(code: int) -> str:
    """What a return code means and what to do about it."""
    return _WORDS.get(code, f"NVML error {code}")


def explain_call(call: str, code: int) -> str:
    """Which call failed, and why."""
    return f"{call}: {explain(code)}"


def xid(number: int) -> str:
    """An XID with its meaning, when it is a known one."""
    return f"{number}: {_XIDS[number]}" if number in _XIDS else str(number)
