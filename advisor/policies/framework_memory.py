"""What to set so that a framework takes less GPU memory, when that works, and what it cannot do. Pure.

Facts, with their sources; nothing here is a guess:

* TensorFlow takes nearly all memory at its first use unless ``TF_FORCE_GPU_ALLOW_GROWTH=true`` is set before
  the GPU is initialized; what it took it never gives back (tensorflow.org, "Use a GPU").
* JAX preallocates 75% at its first operation; ``XLA_PYTHON_CLIENT_MEM_FRACTION`` changes how much,
  ``XLA_PYTHON_CLIENT_PREALLOCATE=false`` that it does (docs.jax.dev, "GPU memory allocation").
* PyTorch's caching allocator reads ``PYTORCH_ALLOC_CONF`` (before: ``PYTORCH_CUDA_ALLOC_CONF``, still read)
  when the process starts. ``per_process_memory_fraction`` is an option in the 2.13 that was looked at (its
  header ``CUDAAllocatorConfig.h``); an older version that does not know a key refuses to start, so it is only
  named for versions known to have it. The cap is on the allocator, not on the context or other libraries.
"""

from dataclasses import dataclass

GIB = 1 << 30
# The release in which the option was seen; an older one that does not know it refuses to start.
TORCH_WITH_FRACTION = (2, 13)
# What JAX takes at its start unless XLA_PYTHON_CLIENT_MEM_FRACTION says otherwise (JAX documentation).
JAX_DEFAULT_FRACTION = 0.75
CANONICAL = {
    "tensorflow": "TensorFlow",
    "keras": "TensorFlow",
    "jax": "JAX",
    "pytorch": "PyTorch",
    "torch": "PyTorch",
}

Version = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """Environment for the next launch. ``cap_bytes`` is what the framework's own allocator then keeps under.

    ``None``: it takes what it needs, and nothing stops it. ``limits`` says what the settings do not do.
    """

    settings: tuple[tuple[str, str], ...]
    cap_bytes: int | None
    limits: str


def family(framework: str | None) -> str | None:
    """The framework whose allocator holds the memory; ``None`` for one that nobody can set."""
    return None if framework is None else CANONICAL.get(framework.lower())


def launch_settings(
    framework: str | None, cap_bytes: int | None, total_bytes: int, version: Version | None = None
) -> LaunchSettings | None:
    """What to set before the next launch so that about ``cap_bytes`` are taken; ``None``: nothing can be.

    Without a ``cap_bytes`` the framework is only told to grow as it needs. Raises ValueError for a cap that
    is not above 0 or exceeds the GPU.
    """
    if cap_bytes is not None and not 0 < cap_bytes <= total_bytes:
        raise ValueError(f"a cap lies above 0 and within the GPU's {total_bytes} bytes; got {cap_bytes}")
    fraction = None if cap_bytes is None else max(0.01, round(cap_bytes / total_bytes, 2))
    match family(framework):
        case "TensorFlow":
            return LaunchSettings(
                settings=(("TF_FORCE_GPU_ALLOW_GROWTH", "true"),),
                cap_bytes=None,
                limits="grows as it needs and never gives memory back; only at the next launch",
            )
        case "JAX":
            return _jax(fraction, cap_bytes)
        case "PyTorch":
            return _torch(fraction, cap_bytes, version)
        case _:
            return None


def _jax(fraction: float | None, cap_bytes: int | None) -> LaunchSettings:
    if fraction is None:
        return LaunchSettings(
            settings=(("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),),
            cap_bytes=None,
            limits="allocates as it needs, which can fragment; only at the next launch",
        )
    return LaunchSettings(
        settings=(("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{fraction:.2f}"),),
        cap_bytes=cap_bytes,
        limits="preallocates so much and fails beyond it; only at the next launch",
    )


def _torch(fraction: float | None, cap_bytes: int | None, version: Version | None) -> LaunchSettings:
    options = ["expandable_segments:True", "garbage_collection_threshold:0.80"]
    new = version is not None and version >= TORCH_WITH_FRACTION
    if fraction is not None and new:
        options.append(f"per_process_memory_fraction:{fraction:.2f}")
    capped = fraction is not None and new
    return LaunchSettings(
        settings=(("PYTORCH_ALLOC_CONF" if new else "PYTORCH_CUDA_ALLOC_CONF", ",".join(options)),),
        cap_bytes=cap_bytes if capped else None,
        limits="caps PyTorch's allocator alone, not the CUDA context or other libraries"
        if capped
        else "returns unused blocks early; a cap needs torch.cuda.set_per_process_memory_fraction in the job",
    )
