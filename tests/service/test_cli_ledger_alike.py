"""``fallow ledger`` says of how many of its hours nobody tells whose the use was."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.cli import main
from tests.collector.store.store_parts import T0
from tests.collector.store.test_store_shared import ALL_MS, charged


@pytest.mark.parametrize(("uses", "is_said"), [({}, True), ({"ann": 0.95, "bob": 0.0}, False)])
def test_hours_that_are_charged_alike_are_said_below_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], uses: dict[str, float | None], is_said: bool
) -> None:
    charged(tmp_path / "data", ("ann", "bob"), uses)
    since, until = (datetime.fromtimestamp(at / 1000, UTC).isoformat() for at in (T0, T0 + ALL_MS))
    assert (
        main(["ledger", "--by", "user", "--since", since, "--until", until, "--data", str(tmp_path / "data")])
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert ("0.3 GPU-hours are of GPUs that several held at once, and nobody tells whose" in shown) is is_said
