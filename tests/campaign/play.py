"""So many kills of Slurm's daemons and of Fallow's processes amid its verbs: ``make campaign``.

    python -m tests.campaign [--kills 200] [--seed 1] [--first 0] [--whole]

Needs root and Debian's Slurm with slurmdbd and MariaDB; elsewhere it says so and does nothing. A line for
each kill. The seed and a kill's number make the kill, so a campaign that was cut short goes on by --first.
Ends with 1 at the first run that was doubled, act on a stranger's job, or top-up that was left over.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.campaign.crashes import AGENT, HEAD, LAUNCHER
from tests.campaign.growth import CONF, Growing, growing
from tests.campaign.pauses import Pauses, pauses
from tests.campaign.whole import whole_pauses
from tests.slurm_accounting import accounted_cluster
from tests.slurm_cluster import SlurmCluster

SLURMS = ("slurmctld", "slurmctld", "slurmdbd", "munged", "slurmd")
"""A controller that is killed forgets: it is drawn twice as often."""
ACCOUNTS = ("nobody", "games")
PAUSES_OF_5 = 3
"""Three kills of five amid a pause or a release, two amid what top-ups do, which take longer."""


class Campaign:
    """Two clusters with accounting, each from its first kill on; SLURM_CONF is that of the one in use."""

    def __init__(self, folder: Path, stack: ExitStack, seed: int, *, is_whole: bool = False) -> None:
        self._folder, self._stack, self._seed = folder, stack, seed
        self._begin = whole_pauses if is_whole else pauses
        self._pauses: Pauses | None = None
        self._growing: Growing | None = None

    def kill(self, number: int) -> list[str]:
        """The kill of that number; what came of it. Raises AssertionError for what must not come."""
        draw = random.Random(f"{self._seed}/{number}")
        if number % 5 < PAUSES_OF_5:
            if self._pauses is None:
                cluster = self._cluster("p", nodes=2, gpus=4)
                self._pauses = self._stack.enter_context(self._begin(cluster, self._folder / "fallow.duckdb"))
            os.environ["SLURM_CONF"] = str(self._pauses.cluster.conf)
            return self._pauses.kill(number, draw, (*SLURMS, HEAD))
        if self._growing is None:
            cluster = self._cluster("g", nodes=1, gpus=2, conf=CONF)
            self._growing = self._stack.enter_context(growing(cluster, self._folder / "g"))
        os.environ["SLURM_CONF"] = str(self._growing.cluster.conf)
        return self._growing.kill(number, draw, (*SLURMS, AGENT, LAUNCHER))

    def _cluster(self, name: str, *, nodes: int, gpus: int, conf: str = "") -> SlurmCluster:
        folder = self._folder / name / "s"
        folder.mkdir(parents=True)
        made = accounted_cluster(folder, nodes=nodes, gpus=gpus, conf=conf)
        cluster = self._stack.enter_context(made)
        os.environ["SLURM_CONF"] = str(cluster.conf)
        add = ("sacctmgr", "--immediate", "add", "user")
        for account in ACCOUNTS:
            cluster.ask(*add, account, "account=root", "qos=normal", "defaultqos=normal")
        return cluster


def play(seed: int, numbers: Iterable[int], *, is_whole: bool = False) -> Counter[str]:
    """Those kills of a campaign, a line for each; how often a verb had which outcome.

    ``is_whole``: the head is the whole service, and not its engine and store in a process of their own.

    Raises AssertionError at the first run that was doubled, and so on, and skips where no Slurm is.
    """
    came: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="slurm-") as name, ExitStack() as stack:
        Path(name).chmod(0o755)  # other people's jobs run from Slurm's folder in it
        campaign = Campaign(Path(name), stack, seed, is_whole=is_whole)
        for number in numbers:
            began_s = time.monotonic()
            try:
                found = campaign.kill(number)
            except AssertionError as wrong:
                raise AssertionError(f"kill {number} of seed {seed}: {wrong}") from wrong
            came.update(found)
            print(f"{number:4d}  {time.monotonic() - began_s:5.1f} s  {'; '.join(found)}", flush=True)
    return came


def main(words: Sequence[str]) -> int:
    """Play the campaign; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first kill")
    parser.add_argument("--whole", action="store_true", help="the head is the whole service")
    given = parser.parse_args(words)
    try:
        came = play(given.seed, range(given.first, given.first + given.kills), is_whole=given.whole)
    except pytest.skip.Exception as missing:
        print(f"not played: {missing}", file=sys.stderr)
        return 2
    except AssertionError as wrong:
        print(wrong, file=sys.stderr)
        return 1
    for outcome, count in sorted(came.items()):
        print(f"{count:4d}  {outcome}")
    print(f"{given.kills} kills: no run was doubled, no stranger's job was met, no top-up was left over")
    return 0
