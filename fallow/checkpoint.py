"""Saves a training's state so that a crash at any moment leaves the last good file, and loads it again.

Nothing in a checkpoint depends on the world size: the step number says which samples come next. Where and
when to save, the trainer decides.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import torch


class CheckpointDamaged(Exception):
    """The file is there but cannot be read as a checkpoint."""


def save(path: Path, state: Any) -> int:
    """Write ``state`` to ``path`` atomically; returns its size in bytes. Raises OSError, the old file intact.

    The new file is complete and on disk before it takes the old one's name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        size = Path(name).stat().st_size
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return size


def load(path: Path, device: torch.device) -> Any | None:
    """The state saved at ``path``, or ``None`` when there is none. Raises CheckpointDamaged."""
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        return None
    except Exception as error:
        raise CheckpointDamaged(
            f"{path} cannot be read as a checkpoint ({error}); move it away to start anew"
        ) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
