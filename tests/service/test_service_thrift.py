"""The service's threads share few heaps, and what was freed goes back to the system."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CROWD = """
import ctypes, sys, threading
from service.server.memory_limits import give_back, share_heaps
if sys.argv[1] == "shared":
    share_heaps()
met, kept = threading.Barrier(12), []
def live():
    met.wait()
    kept.append([bytes(4_000) for _ in range(2_000)])
    met.wait()
crowd = [threading.Thread(target=live) for _ in range(12)]
for each in crowd: each.start()
for each in crowd: each.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before = resident()
kept.clear()
if sys.argv[1] == "shared":
    give_back()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's heaps")
def test_a_crowd_shares_two_heaps_and_gives_them_back(tmp_path: Path) -> None:
    given = {}
    for how in ("shared", "own"):
        told = tmp_path / f"{how}.xml"
        command = [sys.executable, "-c", CROWD, how, str(told)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        given[how] = (told.read_text().count("<heap nr="), int(done.stdout))
    assert given["shared"][0] <= 2 < given["own"][0]
    assert given["shared"][1] > 48 << 20, "of 96 MB"
