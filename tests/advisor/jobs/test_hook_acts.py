"""What a site's own commands are asked is kept before they run, with what came of it.

The statements: add_hook_act, end_hook_act, settle_hook_act, over_hook_act, read_hook_act, open_hook_acts.
"""

from pathlib import Path

from advisor.jobs.external_jobs import Holder
from advisor.jobs.hook_acts import HookActStore, HookCall
from collector.clock import SystemClock
from collector.model import GpuUuid, JobId
from tests.stores import open_store

CALL = HookCall(
    job=JobId("pod:a/b"),
    hook="notebooks",
    verb="pause",
    command=("/opt/hold", "b"),
    holder=Holder(user="ann"),
    gpus=(GpuUuid("g"),),
)


def test_an_act_is_open_until_its_outcome_and_a_pause_until_it_is_over(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        book = HookActStore(store, SystemClock())
        assert book.act(1) is None and book.open() == ()
        book.begin(CALL, 1)
        (act,) = book.open()
        assert (act.call, act.intent, act.ended_ms, act.outcome, act.holds) == (CALL, 1, None, None, False)
        book.ended(1, "it ended with 0")
        book.ended(1, "another word comes too late")
        (act,) = book.open()
        assert act.ended_as == "it ended with 0" and act.ended_ms is not None
        book.settle(1, "done")
        (act,) = book.open()
        assert act.holds
        book.settle(1, "failed")
        assert book.open() == (act,), "what was settled stays so"
        book.over(1, "released")
        assert book.open() == ()
        done = book.act(1)
        assert done is not None and done.over_as == "released" and not done.holds
        book.begin(CALL, 2)
        book.settle(2, "failed")
        assert book.open() == ()
