"""The version of this program."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGE = "fallow-gpu"
NOT_INSTALLED = "0+checkout"
"""Run from a checkout that was not installed: no file says which version it is."""


@cache
def own_version() -> str:
    """What the installed package says; read once, because it lies in a file."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return NOT_INSTALLED
