"""Who held a device when, from the pods and jobs that its series were labelled with. Pure, in columns."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from collector.batch import HeldInterval
from collector.dcgm.labels import Claim
from collector.model import Allocation, GpuUuid

Presence = npt.NDArray[np.bool_]


def held_intervals(
    uuid: GpuUuid,
    at_ms: npt.NDArray[np.int64],
    width_ms: npt.NDArray[np.int64],
    present: Mapping[Claim, Presence],
) -> Iterator[HeldInterval]:
    """Unbroken stretches of each claim with the same share; a hole in the samples ends a stretch.

    ``present`` says for each claim at which of the samples it stood on the labels. Claims at the same moment
    share evenly. A stretch begins where its first sample's width begins, so that stretches of one holder
    touch across the pieces of an import.
    """
    if not present:
        return
    together = np.sum(list(present.values()), axis=0)
    starts = at_ms - width_ms
    follows = np.concatenate([[False], starts[1:] == at_ms[:-1]])
    for claim, there in present.items():
        share = np.where(there, 1.0 / np.maximum(together, 1), 0.0)
        begins = there & ~(follows & np.concatenate([[False], share[1:] == share[:-1]]))
        firsts = np.flatnonzero(begins)
        ends = there & np.concatenate([begins[1:] | ~there[1:], [True]])
        for first, last in zip(firsts, np.flatnonzero(ends), strict=True):
            yield HeldInterval(
                allocation=Allocation(
                    uuid=uuid, holder=claim.holder, share=float(share[first]), source=claim.source
                ),
                from_ms=int(starts[first]),
                to_ms=int(at_ms[last]),
            )
