"""Stores for tests that only need one: made once a run, then copied.

To make an empty one takes 120 ms of processor time, for all the schema, and to open a copy of it 45; each
history written into it takes 150 or more. Tests of the making itself, of what crashes, and of who owns a file
use the program's own ``open_store``.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from collector.store import database
from collector.store.database import Limits, Store

TEMPLATES_VARIABLE = "TESTS_TEMPLATES"
"""Names the folder where this run keeps what it copies: all its workers have the same."""

ONE_THREAD = Limits(threads=1)
"""The program's usual two look for work all the time that a statement runs: half an hour's history of two
GPUs took 193 ms of processor time with them and 167 with one, turn about. These stores have work for one."""


def open_store(path: Path, limits: Limits | None = None) -> Store:
    """The store at ``path`` as the program opens it; where none is, a copy of a new one is laid first."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if (template := template_store()) is not None:
            shutil.copyfile(template, path)
    return database.open_store(path, limits or ONE_THREAD)


def template_store() -> Path | None:
    """A new store's file, closed; None outside a run of the tests, as in processes that tests start."""
    if TEMPLATES_VARIABLE not in os.environ:
        return None
    template = Path(os.environ[TEMPLATES_VARIABLE]) / database.FILE_NAME
    if not template.exists():
        # Two workers may both make it: whole, elsewhere, and the same.
        with tempfile.TemporaryDirectory(dir=template.parent) as folder:
            made = Path(folder) / template.name
            database.open_store(made).close()
            made.replace(template)
    return template


def copy_of(folder: Path, make: Callable[..., object], *words: object) -> None:
    """Put into ``folder``, made if missing, what ``make(folder, *words)`` writes once a run.

    ``make`` is a module's own function that writes the same each time for the same words (they are told apart
    by ``repr``) and leaves nothing open. In processes that tests start it is called each time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if TEMPLATES_VARIABLE not in os.environ:
        make(folder, *words)
        return
    told = hashlib.sha256(repr(words).encode()).hexdigest()[:16]
    template = Path(os.environ[TEMPLATES_VARIABLE]) / f"{make.__module__}.{make.__qualname__}.{told}"
    if not template.exists():
        # Two workers may both make it: the first to be ready keeps the name.
        with tempfile.TemporaryDirectory(dir=template.parent) as made:
            whole = Path(made) / "whole"
            whole.mkdir()
            make(whole, *words)
            with suppress(OSError):
                whole.rename(template)
    shutil.copytree(template, folder, dirs_exist_ok=True)
