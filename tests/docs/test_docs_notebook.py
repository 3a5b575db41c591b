"""The example notebook, executed cell by cell on an export, and held against the ledger of its store."""

import ast
import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.sources.simulated.cluster import SimulatedCluster
from collector.store.database import Limits
from tests.docs.docs_reading import ROOT
from tests.stores import open_store

NOTEBOOK = ROOT / "examples" / "notebooks" / "first_look.ipynb"
DAY_MS = 86_400_000
TO_MS = 1_790_000_000_000 // DAY_MS * DAY_MS
FROM_MS = TO_MS - 3 * DAY_MS

Ledger = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ledger]:
    """A folder with ``export`` in it, and the store's own ledger of people over the same time."""
    folder = tmp_path_factory.mktemp("notebook")
    cluster = SimulatedCluster(seed=3, nodes=2, gpus_per_node=4)
    with open_store(folder / "fallow.duckdb", Limits(memory="512MB", threads=1)) as store:
        for day in cluster.history(FROM_MS, TO_MS):
            store.write_history(day)
        store.export(folder / "export", "parquet", FROM_MS, TO_MS)
        with store.reader() as connection:
            asked = {"from_ts": FROM_MS, "to_ts": TO_MS}
            people = run(connection, "ledger_by_user", asked).to_pylist()
    return folder, {row["key"]: row for row in people if row["key"] is not None}


def test_the_notebook_is_kept_small_and_without_output() -> None:
    book = json.loads(NOTEBOOK.read_text())
    assert (book["nbformat"], book["metadata"]["kernelspec"]["language"]) == (4, "python")
    assert NOTEBOOK.stat().st_size < 10_000
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "strip its output"


def test_the_notebook_opens_an_export_in_two_lines() -> None:
    first = cells()[0].split("\n\n")
    assert len(first[0].splitlines()) <= 2 and "read_parquet" in first[1].splitlines()[0]


def test_the_notebooks_answers_are_those_of_the_ledger(exported: tuple[Path, Ledger]) -> None:
    folder, ledger = exported
    names, shown = executed(folder)
    assert len(shown) == 4 and all(len(table) for table in shown), "each cell shows something"

    used = names["used"]
    assert len(used) == 2 and used.utilization_ratio.between(0, 1).all()

    idle = names["idle"].groupby("user")[["held_gpu_hours", "idle_gpu_hours"]].sum()
    assert set(idle.index) == set(ledger)
    for user, row in idle.iterrows():
        assert row.held_gpu_hours == pytest.approx(ledger[user]["held_gpu_hours"], rel=0.01)
        assert row.idle_gpu_hours == pytest.approx(ledger[user]["wasted_gpu_hours"], rel=0.01, abs=0.05)

    free = names["free"]
    assert len(free) == 71 and free.free.between(0, 8).all()


def executed(folder: Path) -> tuple[dict[str, Any], list[Any]]:
    """The names that the cells leave, and what each shows: the value of its last line, as in Jupyter."""
    names: dict[str, Any] = {}
    shown = []
    with chdir(folder):
        for number, text in enumerate(cells(), start=1):
            body = ast.parse(text, filename=f"cell {number}").body
            last = body.pop()
            exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
            assert isinstance(last, ast.Expr), f"cell {number} shows nothing"
            shown.append(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names))
    return names, shown


def cells() -> list[str]:
    book = json.loads(NOTEBOOK.read_text())
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
