"""What a script of many workers does once: by its rank, by ``job.is_main`` and by what frameworks read."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from tests.fallow.driven import Kill, Resize, drive  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.process]

SCRIPT = """
import json, os, time, torch, fallow
from pathlib import Path

started_as = os.environ["RANK"]
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
data = list(zip(x, x.sum(1, keepdim=True)))
job = fallow.connect()
trainer = job.elastic(model, optimizer, global_batch=16, max_micro_batch=4)
for step, batches in trainer.steps(data, 70):
    if step % 10 == 0 and trainer.rank == 0:  # at the head of the loop, as many scripts save
        torch.save(model.state_dict(), os.environ["SAVED"])
    for a, b in batches:
        trainer.backward((model(a) - b).pow(2).mean())
    told = [started_as, os.environ["RANK"], os.environ["WORLD_SIZE"], trainer.rank, trainer.world_size]
    done = trainer.step()
    if done is not None:
        error = torch.load(os.environ["SAVED"])["weight"].sub(1).abs().max().item()
        with Path(os.environ["DONE"]).open("a") as file:
            file.write(json.dumps([os.getpid(), step, *told, job.is_main, error]) + "\\n")
    time.sleep(0.03)
"""


def test_no_joiner_takes_itself_for_the_first_of_the_job(tmp_path: Path) -> None:
    script, done, saved = tmp_path / "train.py", tmp_path / "done", tmp_path / "best.pt"
    script.write_text(SCRIPT)

    def steps() -> int:
        lines = done.read_text().splitlines() if done.exists() else []
        return max((json.loads(line)[1] for line in lines), default=0)

    variables = {"DONE": str(done), "SAVED": str(saved)}
    driven = drive([str(script)], [Resize(12, 3), Kill(25, 0)], steps, variables=variables)
    assert driven.exit_code == 0, driven.journal
    rows = [json.loads(line) for line in done.read_text().splitlines()]
    assert len({pid for pid, *_ in rows}) == 4
    errors = {}
    for _, step, _, rank_told, world_told, rank, world, is_main, error in rows:
        assert (int(rank_told), int(world_told), is_main) == (rank, world, rank == 0)
        errors[step] = error
    assert errors[69] < 0.01 < errors[0], "an untrained model was saved over a trained one"
    first = {pid: (step, started_as) for pid, step, started_as, *_ in reversed(rows)}
    later = [started_as for step, started_as in first.values() if step > 0]
    assert len(later) == 3
    assert "0" not in later
