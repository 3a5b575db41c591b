"""A promise in a job's record: made, and taken back as soon as it is none."""

from pathlib import Path

from advisor.actions import HoldForJob
from advisor.engines.launched import LocalEngine
from advisor.outcomes import Done
from tests.advisor.jobs.job_store_world import GPUS, HandClock, opened, submission


def test_a_promise_that_is_taken_back_is_in_the_record_no_more(tmp_path: Path) -> None:
    clock = HandClock()
    store, register = opened(tmp_path, clock)
    try:
        engine = LocalEngine(register, clock, lambda *_: None)  # type: ignore[arg-type,return-value]
        job = register.submit(submission())[0].id
        assert engine.do(HoldForJob(job=job, start_ms=2_000_000, gpus=GPUS[:2])) == Done()
        promised = register.entry(job)
        assert (promised.promised_ms, promised.promised_gpus) == (2_000_000, GPUS[:2])
        assert engine.do(HoldForJob(job=job, start_ms=1_500_000, gpus=())) == Done()
        after = register.entry(job)
        assert (after.promised_ms, after.promised_gpus) == (None, ())
    finally:
        store.close()
