"""What the page Queue says of a workload manager's queue, without a browser."""

import pandas as pd

from analytics import text
from service.pages.parts.manager_queue import asked, meanwhile, told

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
    assert told(pd.DataFrame([ROW | {"job": "pod:vision/a"}])) == "At Kubernetes 1 job waits for 4 GPUs"


def test_what_is_not_known_of_a_gpu_is_no_word_of_a_sentence() -> None:
    held = {"node": "n1", "state": "held-idle", "job": "slurm:7", "user_name": None, "state_reason": None}
    kept = {"node": "n1", "state": "reserved", "job": None, "user_name": None, "state_reason": None}
    other = {"node": "n2", "state": "held-idle", "job": "slurm:8", "user_name": "ada", "state_reason": "x"}
    gpus = pd.DataFrame([held, kept, other])
    assert gpus["user_name"].isna().tolist() == [True, True, False]
    assert meanwhile(pd.DataFrame(), gpus, pd.DataFrame([{"node": "n1"}])) == (
        "Meanwhile 2 GPUs are held and unused: slurm:7 (1), slurm:8 of ada (1).",
        "1 GPU is free and kept: a reservation.",
    )


def test_what_a_job_asks_for_is_told_with_its_type_and_tasks() -> None:
    assert asked(ROW) == "4"
    assert asked(ROW | {"gpu_type": "h200", "tasks": 9}) == "9 x 4 h200"
    assert asked(ROW | {"gpus": 0, "shards": 2}) == "2 shards"
    assert asked(ROW | {"gpus": None}) == text.NOTHING
