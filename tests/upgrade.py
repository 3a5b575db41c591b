"""Whether an older version's store, and a launcher of it, survive the upgrade to this checkout.

    python -m tests.upgrade COMMIT      (`make test-upgrade FROM=COMMIT`)

The old version runs from a git worktree with this environment's packages: it measures two simulated nodes
with a day of past and takes a job. It is stopped as systemd stops it, this version starts on its folder,
and both are asked the same. Prints what was compared; the status is 1 where something was lost.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONFIG = '[collect]\nsources = ["simulated"]\ntick_s = 5\n[simulated]\nnodes = 2\nbackfill_days = 1\n'
STARTS_WITHIN_S = 120
ENDS_WITHIN_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A checkout, and the folder that its service works on."""

    checkout: Path
    data: Path

    @property
    def environment(self) -> dict[str, str]:
        """What its processes see: its own packages before those that are installed."""
        return {**os.environ, "PYTHONPATH": str(self.checkout), "PYTHONSAFEPATH": "1"}

    def verb(self, *words: str) -> str:
        """What a verb prints; fails with what it said."""
        verb, *rest = words
        command = [sys.executable, "-m", "service.cli", verb, "--data", str(self.data), *rest]
        done = subprocess.run(
            command, cwd=self.data, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{' '.join(words)} of {self.checkout.name} failed: {done.stderr or done.stdout}")
        return done.stdout

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """The rows of a verb with ``--json``."""
        found: list[dict[str, Any]] = json.loads(self.verb(*words, "--json"))
        return found

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Its service, from the first answer to its end by SIGTERM."""
        command = [sys.executable, "-m", "service.cli", "serve", "--data", str(self.data)]
        service = subprocess.Popen(command, cwd=self.data, env=self.environment)
        try:
            until = time.monotonic() + STARTS_WITHIN_S
            while not (self.data / "service.json").is_file() or not self.rows("ledger", "--since", "2d"):
                if service.poll() is not None or time.monotonic() > until:
                    sys.exit(f"the service of {self.checkout.name} does not answer")
                time.sleep(1)
            yield
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(ENDS_WITHIN_S)


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """A worktree of a commit, gone afterwards."""
    place = folder / "old"
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", place, commit], check=True)
    try:
        yield place
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", place], check=True)


def told(version: Version, job: str) -> dict[str, Any]:
    """What must stay: the ledger of hours that are over, by two keys, and the job."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    window = (f"--since={(hour - timedelta(hours=20)).isoformat()}", f"--until={hour.isoformat()}")
    return {
        "ledger by user": version.rows("ledger", "--by", "user", *window),
        "ledger by hour": version.rows("ledger", "--by", "hour", *window),
        "the job": [row["id"] for row in version.rows("jobs") if row["id"] == job],
    }


def told_before(after: list[Any], before: list[Any]) -> list[Any]:
    """The newer rows with the columns that the older version knew: a column that came is no loss."""
    if len(after) != len(before):
        return after
    return [
        {key: new.get(key) for key in old} if isinstance(old, dict) else new
        for new, old in zip(after, before, strict=True)
    ]


def main() -> int:
    """Run both versions on one folder and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the older version: a tag or commit")
    commit = parser.parse_args().commit
    with (
        tempfile.TemporaryDirectory(prefix="fallow-upgrade-") as scratch,
        checked_out(commit, Path(scratch)) as place,
    ):
        data = Path(scratch) / "data"
        data.mkdir(mode=0o700)
        (data / "fallow.toml").write_text(CONFIG)
        old, new = Version(checkout=place, data=data), Version(checkout=ROOT, data=data)
        with old.serving():
            before_jobs = {row["id"] for row in old.rows("jobs")}
            old.verb("run", "--detach", "--name", "upgraded", "--", "sleep", "600")
            (job,) = {row["id"] for row in old.rows("jobs")} - before_jobs
            before = told(old, job)
        with new.serving():
            after = told(new, job)
            new.verb("cancel", job)
    lost = [name for name in before if told_before(after[name], before[name]) != before[name]]
    for name, rows in before.items():
        print(
            f"{'LOST' if name in lost else 'kept'}  {name}: {len(rows)} rows before, {len(after[name])} after"
        )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
