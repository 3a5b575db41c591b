"""Parts of a step that fail apart from each other: what one of them measured isn't lost to the next one."""

import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping

from tests.gpu import place
from tests.gpu.answers import Figure, Missing, is_so, shown, told

LONGEST_ERROR = 200


Part = Callable[[], Iterable[Figure]]


def each_apart(parts: Mapping[str, Part]) -> list[Figure]:
    """The figures of all, each ``apart``; a step that is cut keeps those that it had."""
    figures: list[Figure] = []
    for name, part in parts.items():
        apart(name, part, figures)
    return figures


def apart(name: str, part: Part, before: list[Figure] | None = None) -> list[Figure]:
    """Its figures; of one that fails its error as a bar that isn't met, of one that lacks something that.

    What was measured before it failed stays. It is printed when the part is over: of a step that is cut the
    last lines stay. With ``before``, a step's figures so far, each is added to them and kept at once.
    """
    begun_s, figures = time.monotonic(), list[Figure]()

    def keep(figure: Figure) -> None:
        figures.append(figure)
        if before is not None:
            before.append(figure)
            place.so_far(before)

    try:
        for figure in part():
            keep(figure)
    except Missing as missing:
        keep(told(name, f"not tried: {missing}"))
    except Exception as error:
        traceback.print_exc(limit=-5)
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{at.filename.rsplit('/', 1)[-1]}:{at.lineno}"
        what = f"{type(error).__name__}: {error} ({where})"
        keep(is_so(f"{name}: done", " ".join(what.split())[:LONGEST_ERROR], "done"))
    for figure in figures:
        print(f"{figure['name']}: {shown(figure['value'])} {figure['unit']}", file=sys.stderr, flush=True)
    print(f"({name}: {time.monotonic() - begun_s:.1f} s)", file=sys.stderr, flush=True)
    return figures
