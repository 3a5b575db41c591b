"""Parts of a step that fail apart from each other: what one of them measured isn't lost to the next one."""

import sys
import time
import traceback
from collections.abc import Callable, Sequence

from tests.gpu.answers import Figure, Missing, is_so, shown, told

LONGEST_ERROR = 200


def apart(name: str, part: Callable[[], Sequence[Figure]]) -> list[Figure]:
    """Its figures; of one that fails its error as a bar that isn't met, of one that lacks something that.

    What was measured is printed at once: of a step that is cut the last lines stay.
    """
    begun_s = time.monotonic()
    try:
        figures = list(part())
    except Missing as missing:
        figures = [told(name, f"not tried: {missing}")]
    except Exception as error:
        traceback.print_exc(limit=-5)
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{at.filename.rsplit('/', 1)[-1]}:{at.lineno}"
        what = f"{type(error).__name__}: {error} ({where})"
        figures = [is_so(f"{name}: done", " ".join(what.split())[:LONGEST_ERROR], "done")]
    for figure in figures:
        print(f"{figure['name']}: {shown(figure['value'])} {figure['unit']}", file=sys.stderr, flush=True)
    print(f"({name}: {time.monotonic() - begun_s:.1f} s)", file=sys.stderr, flush=True)
    return figures
