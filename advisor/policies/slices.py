"""Which parts a GPU can be cut into: MIG profiles by model, from NVIDIA's MIG User Guide. A pure table.

Sizes are those of the profile's name, compute is in sevenths of the GPU's SMs. Only profiles that stand in
the guide for the model are listed; a model that is not listed cannot be cut, as far as is known here.
"""

from dataclasses import dataclass

GIB = 1 << 30
SEVENTHS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A MIG profile: its name, its compute in ``parts`` of ``of``, and its memory."""

    name: str
    parts: int
    of: int
    memory_bytes: int

    @property
    def compute_ratio(self) -> float:
        """The share of the GPU's SMs."""
        return self.parts / self.of


def slices_of(model: str | None, memory_bytes: int | None) -> tuple[Slice, ...]:
    """The profiles of a GPU, smallest first; empty for one that cannot be cut, or is a slice itself."""
    if model is None or memory_bytes is None or "MIG" in model:
        return ()
    for word, least_gib, profiles in _GUIDE:
        if word in model and memory_bytes >= least_gib * GIB:
            of = 4 if word == "A30" else SEVENTHS
            return tuple(
                Slice(name=f"{parts}g.{gib}gb", parts=parts, of=of, memory_bytes=gib * GIB)
                for parts, gib in profiles
            )
    return ()


_GUIDE: tuple[tuple[str, int, tuple[tuple[int, int], ...]], ...] = (
    ("B200", 150, ((1, 23), (1, 45), (2, 45), (3, 90), (4, 90))),
    ("H200", 120, ((1, 18), (1, 35), (2, 35), (3, 71), (4, 71))),
    ("GH200", 90, ((1, 12), (1, 24), (2, 24), (3, 48), (4, 48))),
    ("H100", 90, ((1, 12), (1, 24), (2, 24), (3, 47), (4, 47))),
    ("H100", 70, ((1, 10), (1, 20), (2, 20), (3, 40), (4, 40))),
    ("A100", 70, ((1, 10), (1, 20), (2, 20), (3, 40), (4, 40))),
    ("A100", 35, ((1, 5), (1, 10), (2, 10), (3, 20), (4, 20))),
    ("A30", 20, ((1, 6), (2, 12))),
)
"""Model word, least memory in GiB, and (slices, GB) of each profile; the first row that fits is taken."""
