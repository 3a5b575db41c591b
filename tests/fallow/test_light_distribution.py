"""The light distribution as a training environment gets it: built, installed beside torch alone, and used."""

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
pytest.importorskip(
    "setuptools", minversion="77", reason="setuptools>=77 is not installed; pip install setuptools"
)

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150
BARE = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel; torch and what it needs are lent from ours.

    Of our environment's folder only the packages that lie in it are seen: the checkout, which is installed
    there by a link, is not.
    """
    folder = tmp_path_factory.mktemp("light")
    tree = folder / "tree"
    for part in ("fallow", "packaging"):  # a copy: building leaves files beside the sources
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__", "build"))
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    wheels = folder / "wheels"
    ran([sys.executable, *build, "--wheel-dir", str(wheels), str(tree / "packaging" / "fallow")], folder)

    venv.create(folder / "env", with_pip=False)
    interpreter = folder / "env" / "bin" / "python"
    site = next((folder / "env" / "lib").glob("python*/site-packages"))
    (site / "torch.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    (wheel,) = wheels.glob("fallow_train-*.whl")
    install = ["-m", "pip", "--python", str(interpreter), "install", "--quiet", "--no-deps", "--no-index"]
    ran([sys.executable, *install, str(wheel)], folder)
    return interpreter


def ran(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, env=BARE, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_brings_the_library_and_nothing_else_of_ours(python: Path, tmp_path: Path) -> None:
    question = """
import sys, fallow.controller.main, fallow.job
from importlib.util import find_spec
print(fallow.__file__)
print([name for name in ("collector", "analytics", "advisor", "service", "app") if find_spec(name)])
print(sorted({"duckdb", "fastapi", "rich", "pandas", "accelerate", "lightning"} & set(sys.modules)))
"""
    where, ours, heavy = ran([str(python), "-c", question], tmp_path).splitlines()
    assert Path(where).is_relative_to(python.parents[1])
    assert ours == heavy == "[]"


def test_an_example_trains_with_it_alone_and_under_its_controller(python: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "text.py", tmp_path)
    training = ["text.py", "--steps", "21", "--device", "cpu", "--deterministic"]
    alone = ran([str(python), *training], tmp_path)
    controller = ["-m", "fallow.controller", "--min", "2", "--max", "2", "--"]
    driven = ran([str(python), *controller, *training], tmp_path)
    losses = [[line.split()[3] for line in out.splitlines() if "loss" in line] for out in (alone, driven)]
    assert len(losses[0]) == 3
    assert losses[0] == losses[1]


def test_it_carries_version_licence_and_torch_of_the_whole() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    light = tomllib.loads((ROOT / "packaging" / "fallow" / "pyproject.toml").read_text())["project"]
    assert light["version"] == whole["version"]
    assert light["requires-python"] == whole["requires-python"]
    assert light["license"] == whole["license"] == "Apache-2.0"
    for name in ("LICENSE", "NOTICE"):
        assert (ROOT / "packaging" / "fallow" / name).read_text() == (ROOT / name).read_text()
    assert light["dependencies"] == whole["optional-dependencies"]["train"]
