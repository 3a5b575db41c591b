"""A folder that somebody else prepared: standing in it runs nothing of what lies there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import service
from service.launch import dashboard_program

CHILDREN = {
    "nvml": "from collector.sources.nvml.worker import Worker; w = Worker(); w.is_ready(20); w.end()",
    "drawing": "from service.reports.drawing import Beside\nwith Beside(): pass",
    "checkpoint": "from advisor.engines.cuda_checkpointer import LocalCheckpointer as C\nC(str, 1).look([])",
}
PLANTED = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_process_imports_nothing_from_the_folder_that_somebody_stands_in(
    tmp_path: Path, child: str
) -> None:
    for name in ("service", "collector", "advisor", "fallow"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(PLANTED)
    done = subprocess.run(
        [sys.executable, "-P", "-c", CHILDREN[child]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("ran"))


def test_the_dashboard_stands_in_a_folder_of_its_package_and_reads_no_settings_from_elsewhere() -> None:
    program = dashboard_program(8501)
    assert program.folder is not None and program.folder.is_relative_to(Path(service.__file__).parent)
    assert (program.folder / ".streamlit" / "config.toml").is_file()
