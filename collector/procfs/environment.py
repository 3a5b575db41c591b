"""Which variables of a process's environment may be kept: an allow-list, and nothing else ever.

The block is the one at exec: what a program sets later is not in it (proc_pid_environ(5)).
"""

import re

from collector.procfs.job_root import bounded, without_secrets

VALUE_CHARS = 1024
DEVICES_CHARS = 16_384
"""A list of devices is kept whole: seven MIG instances of each of sixteen GPUs, by UUID, are 5,000."""

SECRET_CHARS = 256
"""Searched for secrets beyond what is kept: one at the end is still known by its shape."""

ALLOWED = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        "SLURM_JOB_ID",
        "SLURM_JOB_NAME",
        "SLURM_JOB_ACCOUNT",
        "SLURM_JOB_PARTITION",
        "SLURM_JOB_GPUS",
        "SLURM_STEP_GPUS",
        "SLURM_STEP_ID",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_CLUSTER_NAME",
        "LSB_JOBID",
        "PBS_JOBID",
        "FLUX_JOB_ID",
        "WANDB_RUN_ID",
        "WANDB_PROJECT",
        "WANDB_ENTITY",
        "WANDB_BASE_URL",
        "WANDB_SWEEP_ID",
        "MLFLOW_RUN_ID",
        "MLFLOW_EXPERIMENT_ID",
        "MLFLOW_EXPERIMENT_NAME",
        "MLFLOW_TRACKING_URI",
        "KFP_RUN_ID",
        "KFP_RUN_NAME",
        "CLEARML_TASK_ID",
        "DET_EXPERIMENT_ID",
        "DET_TRIAL_ID",
        "RAY_JOB_ID",
        "AZUREML_RUN_ID",
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        "JPY_PARENT_PID",
        "JPY_SESSION_NAME",
        "JUPYTERHUB_USER",
        "HOSTNAME",
        "POD_NAME",
        "POD_NAMESPACE",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "XLA_PYTHON_CLIENT_PREALLOCATE",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
        "XLA_PYTHON_CLIENT_ALLOCATOR",
        "FALLOW_JOB",
        "FALLOW_PROJECT",
        "FALLOW_MEMBER",
        "FALLOW_ROLE",
        "FALLOW_MEMORY_FRACTION",
    }
)
DEVICES = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"})

MOST_BYTES = 16_384
"""Of one process's names and values together: three such lists of devices, and all the rest as it is seen."""

ADDRESSES = frozenset({"WANDB_BASE_URL", "MLFLOW_TRACKING_URI"})
"""Who may sign in is often written into these: what stands before the ``@`` of the host is not kept."""

_SIGN_IN = re.compile(r"(?<=://)[^\s/?#@]*@")


def allowed_environment(block: bytes) -> tuple[tuple[str, str], ...]:
    """The allow-listed variables in ``/proc/PID/environ``, sorted by name; the first wins as in getenv(3).

    At most MOST_BYTES in all: the longest are left out until the rest is within it.
    """
    variables: dict[str, str] = {}
    for entry in block.split(b"\0"):
        name_bytes, equals, value = entry.partition(b"=")
        name = name_bytes.decode("utf-8", "replace")
        if equals and name in ALLOWED and name not in variables:
            most = DEVICES_CHARS if name in DEVICES else VALUE_CHARS
            text = value[: 4 * most].decode("utf-8", "replace")[: most + SECRET_CHARS]
            text = _without_sign_in(text) if name in ADDRESSES else text
            variables[name] = bounded(without_secrets(text), most)
    sizes = {name: len(name) + len(value.encode("utf-8", "replace")) for name, value in variables.items()}
    for name in sorted(sizes, key=lambda each: (-sizes[each], each)):
        if sum(sizes.values()) <= MOST_BYTES:
            break
        del variables[name], sizes[name]
    return tuple(sorted(variables.items()))


def _without_sign_in(address: str) -> str:
    """The address alone: no user, password or query; nothing of one in which an ``@`` is left over."""
    bare = _SIGN_IN.sub("", address, count=1).partition("?")[0].partition("#")[0]
    return "" if "@" in bare else bare
