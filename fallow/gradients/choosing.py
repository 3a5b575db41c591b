"""Which reducer a world needs, and what rides in its sum beside gradients and losses."""

from fallow.gradients.bucketed import Plain
from fallow.gradients.flat import Storage
from fallow.gradients.folded import Tree
from fallow.gradients.reduction import Local, Reducer
from fallow.state.replica import Replica
from fallow.world.collectives import Group

NOTES = 2
"""What a worker adds to a step's sum: the number of the plan to switch to, and whether to save. If shares go
by speed, its seconds a sample follow in its rank's place."""


def reducer(replica: Replica, group: Group, *, resized: bool, spare: Storage) -> Reducer:
    """The reducer of ``replica`` in ``group``, which may use the memory of ``spare`` again.

    ``resized``: a world of one that may grow rides through the same sums as larger ones.
    """
    recipe, model = replica.recipe, replica.model
    notes = NOTES + (group.world_size if recipe.balance_by_speed else 0)
    if recipe.deterministic:
        return Tree(model, group, notes, spare, replica.buffers)
    if group.world_size == 1 and not resized:
        return Local(model)
    return Plain(model, group, notes, spare, buffers=replica.buffers)
