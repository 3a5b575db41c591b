"""A small training by ``fallow``, as ``two`` and ``two_gpus`` drive it; a line of JSON for each step.

python -m fallow.controller ... -- tests/gpu/loads/elastic.py LOG STEPS [deterministic] [state=MIB]
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.gpu import place

STATE = 7.0
"""What the state of the script's own is full of."""
WIDTH = 16 if place.dry else 2048


class Held:
    """A state of the script's own. In a buffer of the model each step would sum it over the workers."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def state_dict(self) -> dict[str, Any]:
        """What is handed over."""
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what was handed over."""
        self.values = state["values"]


def main(log: str, steps: int, *, deterministic: bool, state_mib: int = 0) -> None:
    """Train; what each step came to goes to the log, a line by whoever is first.

    ``state_mib`` of the script's own, which no step reads: it is handed to whoever joins.
    """
    torch, device = place.torch(), place.torch_device()
    import fallow

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 4)).to(
        device
    )
    held = Held(torch.zeros(state_mib << 18, device=device))
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(512, 16, generator=generator), torch.randint(0, 4, (512,), generator=generator)
    data = torch.utils.data.TensorDataset(x, y)
    job = fallow.connect(device=str(device))
    trainer = job.elastic(
        net,
        torch.optim.SGD(net.parameters(), lr=0.05),
        global_batch=32,
        max_micro_batch=8,
        deterministic=deterministic,
        state={"held": held} if state_mib else {},
    )
    told = False
    for step, batches in trainer.steps(data, steps):
        if state_mib and step == 0:
            held.values.fill_(STATE)  # whoever joins later has zeros, until it is given these
        for inputs, wanted in batches:
            loss = torch.nn.functional.cross_entropy(net(inputs.to(device)), wanted.to(device))
            trainer.backward(loss)
        done = trainer.step()
        row = {"step": step, "pid": os.getpid(), "world": trainer.world_size, "at_s": time.monotonic()}
        if state_mib and not told:
            row["state"], told = [float(held.values.min()), float(held.values.max())], True
        with open(log, "a") as file:  # noqa: PTH123 - one write of a short line is whole
            file.write(json.dumps(row | {"loss": None if done is None else done.loss}) + "\n")
        time.sleep(0.02)


if __name__ == "__main__":
    sizes = [int(word.removeprefix("state=")) for word in sys.argv[3:] if word.startswith("state=")]
    main(sys.argv[1], int(sys.argv[2]), deterministic="deterministic" in sys.argv, state_mib=sum(sizes))
