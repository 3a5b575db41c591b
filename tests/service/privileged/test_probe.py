"""What the probe says of many processes fits its answer: the longest give way, nobody else."""

import json

from advisor.serialize import from_tree
from collector.model import NodeName, Process, ProcessKey
from service.privileged.probe import TOO_MUCH, within


def _process(pid: int, value: str) -> Process:
    key = ProcessKey(node=NodeName("n1"), pid=pid, started_ms=1)
    return Process(key=key, user="ann", uid=4001, command="train", environment=(("FALLOW_JOB", value),))


def test_what_fits_is_sent_whole() -> None:
    processes = {pid: _process(pid, "a1") for pid in range(1, 20)}
    sent = within(processes, 1 << 20)
    assert {int(pid): from_tree(Process, tree) for pid, tree in sent.items()} == processes


def test_fat_processes_lose_their_variables_and_all_others_stay() -> None:
    eves = {pid: _process(pid, "x" * 50_000) for pid in (7, 8)}
    anns = {pid: _process(pid, "a1") for pid in range(10, 40)}
    sent = within(eves | anns, 60_000)
    assert len(json.dumps(sent)) <= 60_000
    found = {int(pid): from_tree(Process, tree) for pid, tree in sent.items()}
    assert {pid: found[pid] for pid in anns} == anns
    assert found[7].unreadable == (TOO_MUCH,) and found[7].user == "ann" and not found[7].environment
