"""Who held a GPU that fell off, where its own lines told so: the hold ends with them."""

from pathlib import Path

from analytics.assess import assess
from analytics.model import FindingKind
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

BIN_MS = 30_000
STEPS, LAST = 40, 30
"""Twenty minutes; one of two GPUs says nothing in the last five of them."""


def test_the_holder_of_a_gpu_that_fell_off_is_named_after_its_hold_has_ended(tmp_path: Path) -> None:
    rows = [
        sample(number, T0 + n * BIN_MS, 0.9, width_ms=BIN_MS)
        for n in range(1, STEPS + 1)
        for number in (0, 1)
        if number == 1 or n <= LAST
    ]
    claims = [
        HeldInterval(allocation=held(0, "gu"), from_ms=T0, to_ms=T0 + (LAST + 1) * BIN_MS),
        HeldInterval(allocation=held(1, "hu"), from_ms=T0, to_ms=None),
    ]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, claims))
        with store.reader() as reader:
            found = assess(reader, T0 + STEPS * BIN_MS, Thresholds(), BIN_MS).findings
    (fallen,) = (each for each in found if each.kind is FindingKind.FALLING_GPU)
    assert fallen.holder is not None and fallen.holder.user == "user-gu"
    assert "last held by user-gu" in fallen.sentence
