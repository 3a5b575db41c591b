"""People with accounts of their own on a stage: real ones of this machine, which the kernel keeps apart.

The service is root's; they reach it by its socket, as on a machine of many users. Needs root,
and a Python that every account may run.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from examples.demo.stage import ROOT, START_LIMIT_S, Launched, Stage
from examples.toys.board import board_of

SOCKET = "fallow.sock"
"""Beside the stage's folder: the service's own one lies in DATA, which is root's alone."""


class NoPython(Exception):
    """No interpreter here that other accounts can run with what the tests need."""


@dataclass(slots=True)
class Account:
    """One of them; ``folder`` is theirs alone, and their home."""

    stage: Stage
    name: str
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.stage.folder / self.name
        self.folder.mkdir(mode=0o700)
        os.chown(self.folder, self.uid, self._entry.pw_gid)

    @property
    def uid(self) -> int:
        return self._entry.pw_uid

    @property
    def environment(self) -> dict[str, str]:
        """That of a login: nothing of root's but where the toy driver is."""
        at_hand = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder),
            "FALLOW_SOCKET": str(self.stage.folder.parent / SOCKET),
            "PYTHONPATH": _paths(),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return self.stage.driver.environment(at_hand)

    def fallow(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Type a ``fallow`` command and wait for it."""
        return self.python("-m", "service.cli", *words)

    def order(self, *words: str) -> str:
        """The same, which must go well; what it said."""
        done = self.fallow(*words)
        assert done.returncode == 0, f"{self.name}: fallow {' '.join(words)}: {done.stderr}"
        return done.stdout

    def python(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [python_for_all(), *words],
            env=self.environment,
            cwd=self.folder,
            user=self.uid,
            group=self._entry.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
            timeout=START_LIMIT_S,
        )

    def tries(self, statements: str) -> Any:
        """What a program of this account prints, as JSON."""
        done = self.python("-c", statements)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, name: str, flags: Sequence[str], toy: Sequence[str]) -> Launched:
        """Type ``fallow run FLAGS --name NAME -- python -m examples.toys.TOY``."""
        module, *words = toy
        job = [python_for_all(), "-m", f"examples.toys.{module}", *words]
        typed = ["run", *flags, "--name", name, "--", *job]
        log = self.stage.folder / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [python_for_all(), "-m", "service.cli", *typed],
                env=self.environment,
                cwd=self.folder,
                user=self.uid,
                group=self._entry.pw_gid,
                extra_groups=[],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        made = Launched(name=name, process=process, log=log)
        self.stage.launched.append(made)
        return made

    @property
    def _entry(self) -> pwd.struct_passwd:
        return pwd.getpwnam(self.name)


def open_to_all(stage: Stage) -> None:
    """Let every account use the toy driver, as every account may use a GPU."""
    for path in (stage.driver.path, board_of(stage.driver.path)):
        path.chmod(0o666)


@cache
def python_for_all() -> str:
    """An interpreter that every account may run with our packages. Raises ``NoPython``."""
    own = f"python{sys.version_info.major}.{sys.version_info.minor}"
    nobody = pwd.getpwnam("nobody")
    for each in filter(None, (sys.executable, shutil.which(own, path="/usr/local/bin:/usr/bin"))):
        try:
            done = subprocess.run(
                [each, "-c", "import torch, service.cli, examples.toys.toil"],
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": _paths(), "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
                user=nobody.pw_uid,
                group=nobody.pw_gid,
                extra_groups=[],
                capture_output=True,
                check=False,
                timeout=START_LIMIT_S,
            )
        except PermissionError:
            continue
        if done.returncode == 0:
            return each
    raise NoPython(f"no {own} here that every account may run with these packages")


def _paths() -> str:
    return os.pathsep.join([str(ROOT), *(each for each in sys.path if each.endswith("site-packages"))])
