"""What the page Queue says of a workload manager's queue, without a browser."""

import pandas as pd

from analytics import text
from service.pages.parts.manager_queue import asked, told

ROW = {
    "cluster": "lab",
    "tasks": 1,
    "gpus": 4.0,
    "gpu_type": "",
    "shards": 0,
    "cause": "resources",
    "project": None,
}


def test_the_headline_tells_waits_for_gpus_from_others() -> None:
    queue = pd.DataFrame([ROW, ROW | {"cause": "held", "tasks": 3, "gpus": float("nan")}])
    assert told(queue) == (
        "At Slurm 4 jobs wait for 4 GPUs; 1 of them until GPUs are free, the others for something else"
    )
    assert told(queue[:1]) == "At Slurm 1 job waits for 4 GPUs"


def test_what_a_job_asks_for_is_told_with_its_type_and_tasks() -> None:
    assert asked(ROW) == "4"
    assert asked(ROW | {"gpu_type": "h200", "tasks": 9}) == "9 x 4 h200"
    assert asked(ROW | {"gpus": 0, "shards": 2}) == "2 shards"
    assert asked(ROW | {"gpus": None}) == text.NOTHING
