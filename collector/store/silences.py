"""GPUs that are measured again after a silence: their roll-ups of it are made anew. Pure.

While a GPU is silent nobody knows whether its job still has it, so that its time is nobody's. Once it
answers and the job still has it, the job had it meanwhile: given and unknown, as where a row has no values.

Whose a GPU was in a silence is what is told of its holds, however long it lasted. A past is told in pieces,
and a bound would be felt where they meet: the hours of one would be given, those of the next not.
"""

import numpy as np
import numpy.typing as npt

from collector.store.latest import Times
from collector.store.rollups import GRACE_MS
from collector.store.standing import BOARD_GONE_MS


def silences(
    newest_ms: Times,
    ids: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    *,
    longest_ms: int | None = BOARD_GONE_MS,
) -> list[tuple[int, int, int]]:
    """Of each GPU that was silent for so long that the time was rolled up: (id, from, to), UTC ms.

    ``newest_ms`` is by id when the newest sample of each ended, ``starts`` when what is measured now began.
    Silences of more than ``longest_ms`` are left out: a board that was gone for good does not hold up a tick.
    """
    since = newest_ms[ids]
    quiet_ms = starts - since
    is_back = (since > 0) & (quiet_ms > GRACE_MS)
    if longest_ms is not None:
        is_back &= quiet_ms <= longest_ms
    return list(zip(ids[is_back].tolist(), since[is_back].tolist(), starts[is_back].tolist(), strict=True))
