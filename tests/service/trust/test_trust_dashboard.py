"""The dashboard is up when it answers, and not when another account sits at its port."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from service.control.gpu_locks import NoLockFolder, lock_folder
from service.launch import LaunchFailed, _is_well

STRANGER = 4001
ANSWER = """
import socket, sys
made = socket.socket(); made.bind(("127.0.0.1", 0)); made.listen()
print(made.getsockname()[1], flush=True)
while True:
    each, _ = made.accept()
    asked = each.recv(4096)
    print(len(asked), flush=True)
    each.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    each.close()
"""


def test_a_port_that_nobody_has_is_not_well() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert _is_well(port) is False


def test_ones_own_answer_is_well_and_a_stranger_s_ends_the_start_before_anything_is_sent() -> None:
    if os.geteuid() != 0:
        pytest.skip("playing another account needs root")
    for uid in (0, STRANGER):
        words = [
            "setpriv",
            f"--reuid={uid}",
            f"--regid={uid}",
            "--clear-groups",
            sys.executable,
            "-c",
            ANSWER,
        ]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/") as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline())
                if uid == 0:
                    assert _is_well(port) is True
                else:
                    with pytest.raises(LaunchFailed, match="taken by another account"):
                        _is_well(port)
                    assert process.stdout.readline() == "0\n", "the connection was closed without a word"
            finally:
                process.kill()


def test_a_lock_folder_that_somebody_else_has_made_is_said(tmp_path: Path) -> None:
    squatted = tmp_path / "session"
    squatted.mkdir()
    squatted.chmod(0o777)
    shared = tmp_path / "not-there" / "gpus"
    shared.parent.write_text("a file in the way")
    with pytest.raises(NoLockFolder, match="XDG_RUNTIME_DIR"):
        lock_folder({"XDG_RUNTIME_DIR": str(squatted)}, shared)
