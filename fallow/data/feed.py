"""This worker's food: the samples of its coming steps, in order, cut for the world as it is now."""

from typing import Any

import torch

from fallow.data.adapters import Adapter
from fallow.data.batch_plan import BatchPlan, StepShape
from fallow.data.prefetch import Ahead, Direct, Supply
from fallow.data.sample_digest import SampleDigest
from fallow.data.sampler import Course, Piece


class Feed:
    """Open from the first step to ``until``; loader processes, if any are asked for, live as long.

    They are forked here, before this worker connects to others, whose sockets they would hold open. What is
    given out is noted in ``digest``.
    """

    def __init__(self, intake: Adapter, until: int, key: int | None, digest: SampleDigest | None = None):
        self._course = Course(intake.order)
        self._digest = digest or SampleDigest()
        self._until = until
        self._cut: BatchPlan | None = None
        self._shapes: dict[int, StepShape] = {}
        self._supply: Supply = Direct(intake.reader)
        if intake.loading.workers or intake.loading.pin_memory:
            own = None if key is None else torch.Generator().manual_seed(key)
            self._supply = Ahead(intake.reader, intake.loading, own)

    def open(self, cut: BatchPlan, step: int) -> tuple[StepShape, tuple[Piece, ...]]:
        """The shape of ``step`` under ``cut``, and this worker's pieces of it, which may now be fetched."""
        if cut != self._cut:
            self._cut, self._shapes = cut, {}

        def pieces_of(later: int) -> tuple[Piece, ...]:
            return tuple([self._course.piece(later, micro) for micro in cut.mine(self._shape(later))])

        self._supply.aim(cut, step, step + 1 if cut.warming_up else self._until, pieces_of)
        shape = self._shape(step)
        self._digest.begin(shape, lambda: self._course.samples(step))
        return shape, pieces_of(step)

    def fetch(self, piece: Piece) -> Any:
        """The collated samples of ``piece``; blocks until they are there."""
        fetched = self._supply.fetch(piece)
        self._digest.add(piece)
        return fetched

    def close(self) -> None:
        """End the loader processes."""
        self._supply.close()

    def _shape(self, step: int) -> StepShape:
        """All steps of an epoch but the last are cut alike."""
        assert self._cut is not None
        samples = self._course.order.batch_size(step)
        if samples not in self._shapes:
            self._shapes[samples] = self._cut.shape(samples)
        return self._shapes[samples]
