"""Which rules judge: a short text that changes with the rules' code, their questions and their thresholds."""

from functools import cache
from hashlib import sha256
from pathlib import Path

from analytics.thresholds import Thresholds

_HERE = Path(__file__).parent
_RULES = (
    "findings/*.py",
    "thresholds.py",
    "assess.py",
    "gpu_pasts.py",
    "past_findings.py",
    "sql/assess_*.sql",
)
LENGTH = 16
"""64 bits: two versions that look alike by chance are not to be expected."""


def rules_version(thresholds: Thresholds) -> str:
    """The version, of these thresholds. A comment changes it too, which costs a judgement and no error."""
    return sha256(f"{_code()} {thresholds!r}".encode()).hexdigest()[:LENGTH]


@cache
def _code() -> str:
    paths = sorted(path for pattern in _RULES for path in _HERE.glob(pattern))
    return sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()
