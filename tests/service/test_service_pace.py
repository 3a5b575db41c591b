"""A service's own process shares its processor often, and does not look through what stays for good."""

import subprocess
import sys

ASK = """
import gc, sys
from service.server import processor_share as pace
pace.begin()
assert not gc.isenabled()
kept = [[n] for n in range(50_000)]
loose = []
loose.append(loose)
del loose
pace.settle()
assert sys.getswitchinterval() < 0.001
assert gc.isenabled() and gc.get_freeze_count() > 50_000, gc.get_freeze_count()
assert not any(each is kept[7] for each in gc.get_objects()), "it is looked through still"
class Ring:
    alive = 0
    def __init__(self):
        self.me = self
        Ring.alive += 1
    def __del__(self):
        Ring.alive -= 1
for _ in range(200_000):
    Ring()
assert Ring.alive < 20_000, f"{Ring.alive} rings were never collected"
"""


def test_what_was_made_at_the_start_is_left_alone_and_what_comes_later_is_collected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
