"""Reads a store's file block by block, and finds those that are not what was written.

Reading every table is not enough: an index is not read with its table, and a damaged one fails the next row
that is written. So the checksums of all blocks are counted here, as DuckDB 2 does (docs/decisions/0047). A
file whose sound blocks do not agree with that was laid out by another version, and nothing is said of its
blocks.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

HEADER_BYTES = 3 * 4096
"""DuckDB's main header and the two that take turns; the blocks follow."""
BLOCK_BYTES = 262_144
"""The block size that DuckDB gives a new file; ours are never given another."""
_SEED = np.uint64(5381)
_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
"""A block begins with the XOR of the seed and of each of its other 64-bit words times the factor (DuckDB
2.0.0)."""


def damaged_blocks(file: Path) -> tuple[int, ...]:
    """The numbers of the blocks whose checksum is wrong, those that are free now included; reads the whole
    file.

    The free ones can't be told apart here, and cost nothing. Nothing is found where most are wrong: another
    layout. Raises OSError.
    """
    found = list(_checked(file))
    wrong = tuple(number for number, is_sound in enumerate(found) if not is_sound)
    return wrong if 2 * len(wrong) <= len(found) else ()


def _checked(file: Path) -> Iterator[bool]:
    with file.open("rb") as source:
        source.seek(HEADER_BYTES)
        while len(block := source.read(BLOCK_BYTES)) == BLOCK_BYTES:
            words = np.frombuffer(block, dtype="<u8")
            counted = np.bitwise_xor.reduce(words[1:] * _FACTOR) ^ _SEED
            yield bool(counted == words[0]) or not words.any()
