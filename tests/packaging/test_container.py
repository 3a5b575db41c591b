"""The container image: what its files say, and, in a Debian of its own, that it is built and serves."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.conftest import program
from tests.service.conftest import until

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging/container"
BARE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FALLOW"))}


def test_prometheus_takes_its_configuration() -> None:
    check = [
        program("promtool", "prometheus"),
        "check",
        "config",
        "--syntax-only",
        str(FOLDER / "prometheus.yml"),
    ]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_of_the_compose_file_listens_beyond_loopback() -> None:
    told = (FOLDER / "compose.yaml").read_text()
    assert "0.0.0.0" not in told and "ports:" not in told
    for address in re.findall(r"[\d.]+:\d{4}\b", told):
        assert address.startswith("127.0.0.1:"), address


def test_the_image_ends_as_another_account_than_root() -> None:
    lines = (FOLDER / "Containerfile").read_text().splitlines()
    last = [line for line in lines if line.startswith(("FROM", "USER", "ENTRYPOINT"))][-2:]
    assert last == ["USER fallow", 'ENTRYPOINT ["fallow"]']


class Builder:
    """buildah with a storage of its own, without namespaces: it works where containers can't be nested."""

    def __init__(self, folder: Path) -> None:
        store = ["--root", str(folder / "store"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]
        self.words = [program("buildah", "buildah"), *store]

    def __call__(self, *words: str) -> str:
        done = subprocess.run([*self.words, *words], capture_output=True, text=True, env=BARE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def run(self, container: str, *words: str, volume: Path) -> list[str]:
        kept = ["--volume", f"{volume}:/var/lib/fallow"]
        return [*self.words, "run", "--isolation", "chroot", *kept, container, "--", *words]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Builder, str]]:
    """The image of this tree on a small Debian with Python, and a container of it."""
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("needs root and mmdebstrap; on Debian: apt-get install mmdebstrap")
    folder = tmp_path_factory.mktemp("container")
    builder = Builder(folder)
    base = folder / "base.tar"
    release = subprocess.run(
        ["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], capture_output=True, text=True, check=True
    ).stdout.strip()
    python = "--include=python3,python3-venv,python3-pip"
    made = subprocess.run(
        ["mmdebstrap", "--variant=minbase", python, "--quiet", release, str(base)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"no Debian can be made here: {made.stderr.strip()[-200:]}")
    scratch = builder("from", "scratch")
    builder("add", "--quiet", scratch, str(base), "/")
    builder("commit", "--quiet", scratch, "debian-python")
    tree = folder / "tree"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tree)], check=True)
    told = [
        "BUILD_FLAGS=--isolation chroot --pull-never --format docker",
        f"BUILDER={' '.join(builder.words)}",
    ]
    done = subprocess.run(
        ["make", "container", "BASE=localhost/debian-python", *told],
        cwd=tree,
        capture_output=True,
        text=True,
        env=BARE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    yield builder, builder("from", "--pull-never", "localhost/fallow")


@contextmanager
def served(builder: Builder, container: str, volume: Path) -> Iterator[None]:
    words = builder.run(container, "fallow", "serve", "--simulated", "--port", "19475", volume=volume)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=BARE)
    try:
        until("it answers", lambda: process.poll() is None and _is_well(), limit_s=120)
        yield
    finally:
        subprocess.run(["pkill", "-TERM", "-f", "fallow serve --simulated --port 19475"], check=False)
        process.wait(60)


def _is_well() -> bool:
    try:
        with urlopen("http://127.0.0.1:19475/healthz", timeout=2) as answer:
            return bool(json.load(answer)["status"] == "ok")
    except OSError:
        return False


@pytest.mark.process
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_it_is_built_and_serves_as_its_own_account_and_keeps_its_volume(
    built: tuple[Builder, str], tmp_path: Path
) -> None:
    builder, container = built
    volume = tmp_path / "volume"
    volume.mkdir()
    os.chown(volume, 9475, 9475)

    def inside(*words: str) -> str:
        # to a file: of buildah's own pipe, what a short program prints was lost once on a busy machine
        typed = ("sh", "-c", '"$@" > /var/lib/fallow/printed', "sh", *words)
        done = subprocess.run(
            builder.run(container, *typed, volume=volume),
            capture_output=True,
            text=True,
            env=BARE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return (volume / "printed").read_text()

    assert inside("id", "-un").strip() == "fallow"
    assert "fallow 0." in inside("fallow", "--version")
    with served(builder, container, volume):
        rows = json.loads(inside("fallow", "status", "--json"))
        assert len(rows) == 32 and all(row["simulated"] for row in rows)
    assert (volume / "fallow.duckdb").stat().st_uid == 9475
    with served(builder, container, volume):
        assert "wasted" in inside("fallow", "waste")
