"""Whether a background job computed in idle gaps alone, by what it and its foreground wrote down."""

import json
from bisect import bisect
from pathlib import Path

LATE_RATIO = 0.1
"""One layer in ten may be late: the kernel takes the processor away between a gate and its layer, and a
request comes when it pleases. Without a gate as many would be as the foreground computes of its time: half
beside the trainings of these tests, a quarter beside the server."""


def assert_in_gaps(busy: Path, log: Path) -> None:
    """``busy``: begin and end of each time that the foreground computed; ``log``: for each step of the other
    when its layers began. Both by the machine's steady clock, in nanoseconds.
    """
    spans = [tuple(map(int, line.split())) for line in busy.read_text().splitlines()]
    began = [at for line in log.read_text().splitlines() for at in json.loads(line)]
    ends = [end for _, end in spans]
    amid = sum(spans[at][0] <= when for when in began if (at := bisect(ends, when)) < len(ends))
    assert began and amid <= LATE_RATIO * len(began), f"{amid} of {len(began)}"
