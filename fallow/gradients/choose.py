"""Which reducer a world needs, and what rides in its sum beside gradients and losses."""

from fallow.data import content_check, sample_digest
from fallow.gradients.deterministic import Tree
from fallow.gradients.flat import Storage
from fallow.gradients.overlapped import Plain
from fallow.gradients.reducer import Local, Reducer
from fallow.process_group.collectives import Group
from fallow.state.replica import Replica

NOTES = 2 + sample_digest.NOTES + content_check.NOTES
"""What a worker adds to a step's sum: the number of the plan to switch to, whether to save, and hashes of the
samples. If shares go by speed, its seconds follow in its rank's place."""


def reducer(replica: Replica, group: Group, *, resized: bool, spare: Storage) -> Reducer:
    """The reducer of ``replica`` in ``group``, which may use the memory of ``spare`` again.

    ``resized``: a world of one that may grow rides through the same sums as larger ones.
    """
    recipe, model = replica.recipe, replica.model
    notes = NOTES + (group.world_size if recipe.balance_by_speed else 0)
    if recipe.deterministic:
        alone = group.world_size == 1 and not resized
        return Tree(model, group, notes, spare, replica.buffers, alone=alone)
    if group.world_size == 1 and not resized:
        return Local(model)
    return Plain(model, group, notes, spare, buffers=replica.buffers)
