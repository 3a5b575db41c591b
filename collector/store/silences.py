"""GPUs that are measured again after a silence: their roll-ups of it are made anew. Pure.

While a GPU is silent nobody knows whether its job still has it, so that its time is nobody's. Once it
answers and the job still has it, the job had it meanwhile: given and unknown, as where a row has no values.
"""

import numpy as np
import numpy.typing as npt

from collector.store.latest import Times
from collector.store.rollups import DAY_MS, GRACE_MS

LONGEST_SILENCE_MS = DAY_MS
"""As long as a hold goes on over a time in which nobody looked (``holds_at``)."""


def silences(
    newest_ms: Times, ids: npt.NDArray[np.int32], starts: npt.NDArray[np.int64]
) -> list[tuple[int, int, int]]:
    """Of each GPU that was silent for so long that the time was rolled up: (id, from, to), UTC ms.

    ``newest_ms`` is by id when the newest sample of each ended, ``starts`` when what is measured now began.
    """
    since = newest_ms[ids]
    quiet_ms = starts - since
    is_back = (since > 0) & (quiet_ms > GRACE_MS) & (quiet_ms <= LONGEST_SILENCE_MS)
    return list(zip(ids[is_back].tolist(), since[is_back].tolist(), starts[is_back].tolist(), strict=True))
