"""An ordinary account of the machine that attacks a training.

    python -m tests.fallow.stranger ACCOUNT WHAT ARGUMENT...

It loads what it needs as whoever starts it, becomes that account, and has no more than any account has from
then on: the tables of ``/proc/net``, and ports of loopback.
"""

import os
import pickle
import socket
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from fallow import protocol
from fallow.control_server import ask
from fallow.process_group import group as groups
from fallow.protocol import MemberId

ACCOUNT = 65_533
"""Owns nothing here."""


class Evil:
    """What runs a command in whoever unpickles it."""

    def __init__(self, command: str):
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self.command,)


def take_in(port: str, command: str) -> None:
    """Publish a plan with oneself in it, connect its group, and hand a pickle over to the first member."""
    store = dist.TCPStore("127.0.0.1", int(port), is_master=False, timeout=timedelta(seconds=5))
    for number in range(1, 40):
        if not store.check([protocol.plan_key(number)]):
            break
    members = tuple(MemberId(name) for name in ("w0", "evil"))
    plan = protocol.Plan(number=number, base=number - 1, members=members, receivers=members[:1])
    store.set(protocol.plan_key(number), protocol.encode_plan(plan))
    store.set(protocol.connected_key(number, members[1]), protocol.CONNECTED)
    store.set(protocol.decision_key(number), protocol.COMMIT)
    store.set(protocol.wish_key(1), protocol.SAVE)
    store.set(protocol.broken_key(number - 1), "1")
    store.set(protocol.lost_key(number - 1, members[0]), "999999")
    store.set(protocol.report_key(members[0]), '{"step": 1e9}')
    store.set(
        protocol.offer_key(1), '{"agent": "evil", "name": "evil", "slots": 9, "host": "", "devices": []}'
    )
    print("attacked", flush=True)
    meeting = dist.PrefixStore(protocol.group_prefix(number), store)
    try:
        group = groups.connect(meeting, 1, 2, torch.device("cpu"), "127.0.0.1")
    except groups.GroupBroken as broken:
        print(f"not taken in: {broken}", flush=True)
        return
    word = pickle.dumps((Evil(command), None))
    group.send(torch.tensor([len(word)]), 0)
    group.send(torch.frombuffer(bytearray(word), dtype=torch.uint8), 0)
    print("handed over", flush=True)


def steer(path: str, *words: str) -> None:
    """Ask a training for something."""
    try:
        print(ask(Path(path), words), flush=True)
    except OSError as error:
        print(f"refused: {error}", flush=True)


def listen(path: str) -> None:
    """Pretend to be a training at a path of one's own."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    Path(path).chmod(0o666)
    listener.listen()
    print("listening", flush=True)
    client, _ = listener.accept()
    client.sendall(b'{"saved_bytes": 1, "stopping": true}\n')
    client.close()


def peek(*paths: str) -> None:
    """Try to read files."""
    for path in paths:
        try:
            print(f"read {len(Path(path).read_bytes())} bytes of {path}", flush=True)
        except OSError as error:
            print(f"refused: {error}", flush=True)


if __name__ == "__main__":
    account, chosen, *arguments = sys.argv[1:]
    "host".encode("idna")  # loaded while the interpreter's own files can be read
    os.setgroups([])
    os.setgid(int(account))
    os.setuid(int(account))
    what = {work.__name__: work for work in (take_in, steer, listen, peek)}
    what[chosen](*arguments)
