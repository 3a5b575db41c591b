"""A JAX program as it comes: it takes three quarters of the GPU ahead, unless told otherwise."""

import os
from typing import Any

from tests.gpu import place
from tests.gpu.loads.pipe import serve


def main() -> None:
    """Compute once, and hold what was taken."""
    kept: Any = None
    if place.dry:
        ahead = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false"
        place.pretend_process(os.getpid(), (60 if ahead else 2) * place.GIB)
    else:
        import jax.numpy as jnp

        kept = jnp.ones((1024, 1024))
        (kept @ kept).block_until_ready()
    place.known_to_cuda()
    serve(lambda words: {"sum": 1.0 if kept is None else float(kept.sum())})
    place.pretend_process(os.getpid(), None)


if __name__ == "__main__":
    main()
