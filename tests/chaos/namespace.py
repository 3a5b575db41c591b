"""A private mount namespace in which other accounts reach this interpreter and this checkout.

Where Python or the checkout lies below a folder that is closed to others (a root's home), that folder is
covered, in this namespace alone, by an empty one with just the needed parts in it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

VARIABLE = "FALLOW_CHAOS_NAMESPACE"


def enter() -> None:
    """Start this program again in a namespace of its own; returns there. Raises OSError where that fails."""
    if VARIABLE in os.environ:
        _open_to_others((Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]))
        return
    words = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        sys.executable,
        "-m",
        "tests.chaos",
        *sys.argv[1:],
    ]
    os.execvpe("unshare", words, {**os.environ, VARIABLE: "1"})


def _open_to_others(needed: tuple[Path, ...]) -> None:
    closed: dict[Path, list[Path]] = {}
    for path in map(Path.resolve, needed):
        top = next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)
        if top is not None:
            closed.setdefault(top, []).append(path)
    for top, paths in closed.items():
        held = [(path, Path(tempfile.mkdtemp())) for path in paths]
        for path, place in held:
            _mount("--bind", str(path), str(place))
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(top))
        for path, place in held:
            path.mkdir(parents=True)
            _mount("--move", str(place), str(path))


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)
