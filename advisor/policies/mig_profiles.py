"""Which MIG profiles a board can be cut into, with the memory and SMs that they truly have. Pure.

Facts about hardware alone: whether a job fits one is ``advisor.policies.right_size``'s question.
"""

from dataclasses import dataclass

GIB = 1 << 30
# All but the A30 have seven compute slices (NVIDIA, MIG User Guide).
SEVENTHS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A MIG profile: its name, its compute in ``parts`` of ``of``, its SMs of the board's, its memory.

    Hours count by ``hours_ratio``, as the ledger's do. What a job needs of the SMs is measured against the
    whole board's, of which profiles have fewer than these parts: some SMs are in none.
    """

    name: str
    parts: int
    of: int
    sm_ratio: float
    memory_bytes: int

    @property
    def hours_ratio(self) -> float:
        """The share of the GPU that it counts as."""
        return self.parts / self.of


def slices_of(model: str | None, memory_bytes: int | None) -> tuple[Slice, ...]:
    """The profiles of a GPU, smallest first; empty for one that cannot be cut, or is a slice itself."""
    if model is None or memory_bytes is None or "MIG" in model or "GB200" in model:
        return ()
    for board, least_gib, sms, profiles in _GUIDE:
        if board in model and memory_bytes >= least_gib * GIB:
            of = 4 if board == "A30" else SEVENTHS
            return tuple(
                Slice(
                    name=f"{parts}g.{gb}gb",
                    parts=parts,
                    of=of,
                    sm_ratio=own / sms,
                    memory_bytes=round(gib * GIB),
                )
                for parts, gb, own, gib in profiles
            )
    return ()


_GUIDE: tuple[tuple[str, int, int, tuple[tuple[int, int, int, float], ...]], ...] = (
    (
        "B200",
        150,
        148,
        ((1, 23, 18, 20.3), (1, 45, 18, 39.8), (2, 45, 36, 39.8), (3, 90, 54, 79.6), (4, 90, 72, 79.6)),
    ),
    (
        "H200",
        120,
        132,
        ((1, 18, 16, 16.0), (1, 35, 26, 32.5), (2, 35, 32, 32.5), (3, 71, 60, 65.0), (4, 71, 64, 65.0)),
    ),
    (
        "GH200",
        90,
        132,
        ((1, 12, 16, 11.0), (1, 24, 26, 23.0), (2, 24, 32, 23.0), (3, 48, 60, 46.5), (4, 48, 64, 46.5)),
    ),
    (
        "H100",
        90,
        132,
        ((1, 12, 16, 10.62), (1, 24, 26, 21.5), (2, 24, 32, 21.5), (3, 47, 60, 46.12), (4, 47, 64, 46.12)),
    ),
    (
        "H100 PCIe",
        70,
        114,
        ((1, 10, 14, 9.62), (1, 20, 14, 19.5), (2, 20, 30, 19.5), (3, 40, 46, 39.25), (4, 40, 62, 39.25)),
    ),
    (
        "H100",
        70,
        132,
        ((1, 10, 16, 9.62), (1, 20, 26, 19.5), (2, 20, 32, 19.5), (3, 40, 60, 39.25), (4, 40, 64, 39.25)),
    ),
    (
        "A100",
        70,
        108,
        ((1, 10, 14, 9.5), (1, 20, 14, 19.5), (2, 20, 28, 19.5), (3, 40, 42, 39.25), (4, 40, 56, 39.25)),
    ),
    (
        "A100",
        35,
        108,
        ((1, 5, 14, 4.75), (1, 10, 14, 9.62), (2, 10, 28, 9.62), (3, 20, 42, 19.5), (4, 20, 56, 19.5)),
    ),
    ("A30", 20, 56, ((1, 6, 14, 5.81), (2, 12, 28, 11.69))),
)
"""Board, least memory in GiB, the board's SMs, and each profile: slices, the GB of its name, its SMs, its
memory in GiB, rounded down; the first row that fits is taken. Which there are is NVIDIA's guide's. SMs and
memory are what ``nvidia-smi mig -lgip`` printed in public issues and pages, the least of several drivers: a
1g.18gb of an H200 has 16.0 GiB, and 16 of 132 SMs where a seventh were 19. Of an H200's 3g and 4g no listing
was found: twice its 2g's memory, as the guide has it (4/8 and 2/8). Nor of a B200: 18 SMs a slice, and its
memory as the smallest part of a name's that is listed (10.62 of 12). No profile of a GB200 is known."""
