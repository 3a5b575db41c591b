"""Random faults on a busy queue for so many minutes, and an auditor's table at the end: ``make chaos``.

    python -m tests.chaos [--minutes 3] [--seed N]

Needs root, for accounts of its own; elsewhere it says so and does nothing. It attacks what it started itself,
in a folder of its own, and nothing else. The seed makes the same faults in the same order; what they meet is
the machine's to say. Exit code 1 when anything was lost, doubled, leaked or taken, or somebody had to wait.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

from service.launcher.submitting import SUBMIT_LIMIT_S
from tests.chaos import audit
from tests.chaos.disk import cut_log, flip_log, flip_table, full_disk, mount_small
from tests.chaos.exporter import Exporter
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.namespace import enter
from tests.chaos.site import GPUS, USERS, Site, UnixHttp, make_folder
from tests.driver.driver import CompilerMissing

WAIT_S = 5.0
"""Nobody has to wait longer for an answer while the service runs, whatever others do (the promise)."""
DRAIN_S = 180.0
"""After the last fault so long may the queue take: the jobs last four seconds at most."""
AT_ONCE = 8
"""Jobs under way or waiting: twice the GPUs."""
MOST_SHOWN = 40
"""Of what went wrong; the rest is counted."""
DISK_FAULTS: tuple[tuple[Fault, float], ...] = (
    (full_disk, 1.0),
    (cut_log, 1.0),
    (flip_log, 1.0),
    (flip_table, 1.0),
)
"""How often each comes, beside the others'."""
MOST_GROWTH = {"descriptors": 40, "threads": 20}
"""From the start to the end of a run, in a service that was started again: connections that close."""


class Asker(threading.Thread):
    """Asks the service again and again as an ordinary account would; the longest wait while it was up."""

    def __init__(self, site: Site) -> None:
        super().__init__(daemon=True)
        self._site = site
        self.ending = threading.Event()
        self.longest_s = 0.0
        self.answers = 0

    def run(self) -> None:
        while not self.ending.wait(0.2):
            begun_s = time.monotonic()
            while not self.ending.is_set():
                if self._site.down.is_set():
                    begun_s = time.monotonic()  # it is away on purpose: waits count from its return
                connection = UnixHttp(self._site.socket, 30)
                with suppress(OSError):
                    connection.request("GET", "/v1/queue", headers={"Accept": "application/json"})
                    if connection.getresponse().status == 200:
                        self.answers += 1
                        break
                connection.close()
                time.sleep(0.05)
            connection.close()
            if not self._site.down.is_set():
                self.longest_s = max(self.longest_s, time.monotonic() - begun_s)


def main() -> int:
    """Play, audit, print; the exit code."""
    flags = argparse.ArgumentParser(prog="chaos", description=__doc__)
    flags.add_argument("--minutes", type=float, default=3.0)
    flags.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    flags.add_argument("--faults", nargs="+", metavar="NAME", help="these alone, by the names of the table")
    chosen = flags.parse_args()
    if os.geteuid() != 0:
        print("chaos needs root, to play three accounts; nothing was done")
        return 0
    enter()
    folder, exporter = make_folder(), Exporter()
    print(f"seed {chosen.seed}, {chosen.minutes:g} min, in {folder}")
    try:
        with Site(folder, exporter.port, mount_small) as site:
            return _play(site, exporter, chosen)
    except CompilerMissing as missing:
        print(f"chaos needs the stand-in driver: {missing}")
        return 0
    finally:
        exporter.close()
        shutil.rmtree(folder, ignore_errors=True)


def _play(site: Site, exporter: Exporter, chosen: argparse.Namespace) -> int:
    dice, ends_s = random.Random(chosen.seed), time.monotonic() + chosen.minutes * 60
    before, asker = site.sizes(), Asker(site)
    asker.start()
    tried: Counter[str] = Counter()
    wrong: list[tuple[str, str]] = []
    wanted = [
        each for each in (*FAULTS, *DISK_FAULTS) if not chosen.faults or each[0].__name__ in chosen.faults
    ]
    faults, weights = zip(*wanted, strict=True)
    while time.monotonic() < ends_s:
        while len(site.running()) < AT_ONCE:
            gpus = dice.choice([1, 1, 1, 2, GPUS])
            site.launch(dice.choice(USERS), gpus, dice.uniform(0.2, 4), dice.choice([0, 0, 1]))
        time.sleep(dice.uniform(0.2, 1.5))
        (fault,) = dice.choices(faults, weights)
        name = fault.__name__
        tried[name] += 1
        wrong += [(name, each) for each in fault(site, exporter, dice)]
    exporter.mode = "good"
    drained = _drain(site)
    asker.ending.set()
    asker.join(30)
    wrong += [("audit", each) for each in (*drained, *_audit(site, before))]
    if asker.longest_s > WAIT_S:
        wrong.append(("wait", f"somebody waited {asker.longest_s:.1f} s for an answer, {WAIT_S:g} allowed"))
    _print(site, tried, wrong, asker)
    return 1 if wrong else 0


def _drain(site: Site) -> list[str]:
    """Let the queue run empty; what hung is ended and named."""
    if not site.answers():
        site.wait_for_answer()
    ends_s = time.monotonic() + DRAIN_S
    while site.running() and time.monotonic() < ends_s:
        time.sleep(0.2)
    hung = [each.key for each in site.running()]
    found = []
    while time.monotonic() < ends_s:
        status, leases = site.ask("GET", "/v1/leases")
        rows = leases if isinstance(leases, list) else (leases or {}).get("leases", [])
        if status == 200 and not rows and not site.ours():
            break
        time.sleep(0.5)
    else:
        found += [f"leases are left: {rows}"] if rows else []
        found += [f"left behind: {each}" for each in site.ours()]
    return [*found, *(f"{key}: did not end within {DRAIN_S:g} s" for key in hung)]


def _audit(site: Site, before: dict[str, int]) -> list[str]:
    ran = [
        audit.Ran(
            key=each.key,
            status=each.process.poll(),
            hurt=each.hurt,
            restarts=each.restarts,
            lines=audit.read_ledger(site.ledger, each.key),
            unheard=site.was_away_for(each, SUBMIT_LIMIT_S),
        )
        for each in site.launched
    ]
    if untaken := [each.key for each in ran if each.was_not_taken]:
        print(f"not taken, for no service answered for {SUBMIT_LIMIT_S:g} s, as they said: {untaken}")
    found = audit.faults(ran) + audit.leftovers(before, site.sizes(), MOST_GROWTH)
    status, actions = site.ask("GET", "/v1/actions")
    rows = actions if isinstance(actions, list) else (actions or {}).get("actions", [])
    found += [
        f"action {row['action']} has no result" for row in rows if status == 200 and not row.get("outcome")
    ]
    log = (site.folder / "serve.log").read_text(errors="replace")
    found += [f"the service's log has a traceback: {each}" for each in audit.tracebacks(log)]
    return found


def _print(site: Site, tried: Counter[str], wrong: list[tuple[str, str]], asker: Asker) -> None:
    print(f"\n{'fault':<18}{'tried':>7}{'survived':>10}")
    failed = Counter(name for name, _ in wrong)
    for name, count in sorted(tried.items()):
        print(f"{name:<18}{count:>7}{count - min(failed[name], count):>10}")
    done = sum(1 for each in site.launched if each.process.poll() == 0)
    hurt = sum(1 for each in site.launched if each.hurt)
    print(
        f"\n{len(site.launched)} jobs: {done} done, {hurt} hurt on purpose; the service was started "
        f"{site.starts} times; {asker.answers} answers, the longest wait {asker.longest_s:.2f} s"
    )
    for name, each in wrong[:MOST_SHOWN]:
        print(f"WRONG {name}: {each}")
    if wrong:
        logs = [str(site.folder / name) for name in ("launchers.log", "serve.log")]
        words = ["tail", "-n", "60", *logs]
        print(subprocess.run(words, capture_output=True, text=True, check=False).stdout)
    print("nothing lost, doubled, leaked or taken" if not wrong else f"{len(wrong)} things went wrong")


if __name__ == "__main__":
    sys.exit(main())
