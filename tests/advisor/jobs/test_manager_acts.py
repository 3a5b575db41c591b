"""What is asked of a workload manager is kept before it is asked, with what came of it.

The statements: add_manager_act, see_manager_act, settle_manager_act, end_manager_act, read_manager_act,
open_manager_acts.
"""

from pathlib import Path

from advisor.jobs.external_jobs import Holder
from advisor.jobs.manager_acts import Asked, ManagedRun, ManagerActStore
from collector.clock import SystemClock
from collector.model import GpuUuid, JobId
from tests.stores import open_store

RUN = ManagedRun(cluster="lab", number="7", user="ann", name="x", submitted_ms=1000, restarts=0)
ASKED = Asked(
    job=JobId("slurm:7"),
    verb="pause",
    run=RUN,
    target="7",
    holder=Holder(user="ann"),
    gpus=(GpuUuid("g"),),
    began_ms=5,
)


def test_an_act_is_open_until_its_outcome_and_a_pause_until_it_is_over(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        book = ManagerActStore(store, SystemClock())
        assert book.act(1) is None and book.open() == ()
        book.begin(ASKED, 1)
        (act,) = book.open()
        assert (act.asked, act.intent, act.after, act.outcome, act.holds) == (ASKED, 1, None, None, False)
        book.seen(1, RUN)
        first = book.act(1)
        assert first is not None and first.after == RUN and first.seen_ms is not None
        book.settle(1, "done")
        (act,) = book.open()
        assert act.holds
        book.settle(1, "failed")
        assert book.open() == (act,), "what was settled stays so"
        book.over(1, "released")
        assert book.open() == ()
        done = book.act(1)
        assert done is not None and done.over_as == "released" and not done.holds
        book.begin(ASKED, 2)
        book.settle(2, "failed")
        assert book.open() == ()
