"""Randomness keyed by what is computed, not by who computes it: (seed, step, micro-batch).

Python's, torch's and, if the script uses it, NumPy's global generators are set, so that dropout and
augmentation draw the same numbers for a micro-batch in whichever worker it lands.
"""

import hashlib
import random
import sys

import torch


def seed(seed: int, step: int, micro_batch: int) -> None:
    """Set the global generators for one micro-batch of one step."""
    digest = hashlib.blake2b(f"{seed}/{step}/{micro_batch}".encode(), digest_size=8).digest()
    key = int.from_bytes(digest, "little") >> 1
    random.seed(key)
    torch.default_generator.manual_seed(key)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.manual_seed(key)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(key % 2**32)
