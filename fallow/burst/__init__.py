"""Burst parallelism: layers of one model on different numbers of ranks (DeepPool, MLSys 2022). See
docs/burst.md.

``module(model, plans, criterion)`` makes a model that runs by plans. It is looked up when first used, so that
plans and tables can be read without torch.
"""

from typing import Any

__all__ = ["module"]


def __getattr__(name: str) -> Any:
    if name == "module":
        from fallow.burst import bursts

        return bursts.module
    raise AttributeError(f"module 'fallow.burst' has no attribute {name!r}")
