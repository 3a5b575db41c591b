"""The training that the benches resize: a small transformer over random tokens, of two sizes.

Every micro-batch sleeps 5 ms, so that workers that share two cores still gain from each other, as they would
with GPUs of their own. The same model, data and cut run under ``fallow`` and under ``torchrun`` with
DistributedDataParallel; each worker writes down when its steps began, were computed and were committed.

    python bench/elastic/training.py LOG SIZE        (started by bench/resize.py)
"""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))

import fallow

SLEEP_S = 0.005
ENDLESS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a training is: the model, and how a step is cut."""

    width: int
    layers: int
    vocabulary: int
    context: int
    global_batch: int
    max_micro_batch: int


SIZES = {
    "0.3M": Size(width=64, layers=5, vocabulary=512, context=16, global_batch=16, max_micro_batch=2),
    "50M": Size(width=640, layers=9, vocabulary=4096, context=8, global_batch=8, max_micro_batch=2),
}


class Transformer(nn.Module):
    """Layers over an embedding, and a head."""

    def __init__(self, size: Size):
        super().__init__()
        self.embed = nn.Embedding(size.vocabulary, size.width)
        layer = nn.TransformerEncoderLayer(size.width, 4, 4 * size.width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.head = nn.Linear(size.width, size.vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens ``(batch, context)`` to scores ``(batch, vocabulary, context)``."""
        scores: torch.Tensor = self.head(self.body(self.embed(tokens)))
        return scores.transpose(1, 2)


def build(size: Size) -> tuple[nn.Module, torch.optim.Optimizer, torch.utils.data.TensorDataset]:
    """The same model, optimizer and data in every process."""
    torch.manual_seed(0)
    model = Transformer(size)
    tokens = torch.randint(size.vocabulary, (512, size.context + 1))
    data = torch.utils.data.TensorDataset(tokens[:, :-1], tokens[:, 1:])
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4), data


class Log:
    """One line a step: its number, the world size, and seconds of the machine's monotonic clock."""

    def __init__(self, folder: Path, worker: str):
        self._file = (folder / f"{worker}-{os.getpid()}.steps").open("w", buffering=1)

    def step(self, number: int, world_size: int, began_s: float, computed_s: float, done_s: float) -> None:
        """``computed_s``: before the step's sum is waited for; ``done_s``: when the next can begin."""
        self._file.write(f"{number} {world_size} {began_s:.6f} {computed_s:.6f} {done_s:.6f}\n")

    def moved(self, what: str, nbytes: int, began_s: float, ended_s: float) -> None:
        """A hand-over of the state."""
        self._file.write(f"{what} {nbytes} {began_s:.6f} {ended_s:.6f}\n")


def main() -> None:
    """Train until nobody wants it any more."""
    folder, size = Path(sys.argv[1]), SIZES[sys.argv[2]]
    torch.set_num_threads(1)
    log = Log(folder, os.environ["FALLOW_MEMBER"])
    time_handovers(log)
    model, optimizer, data = build(size)
    trainer = fallow.connect().elastic(
        model, optimizer, global_batch=size.global_batch, max_micro_batch=size.max_micro_batch
    )
    loss_of = nn.CrossEntropyLoss()
    for number, batches in trainer.steps(data, ENDLESS):
        began_s, world_size = time.monotonic(), trainer.world_size
        for x, y in batches:
            time.sleep(SLEEP_S)
            trainer.backward(loss_of(model(x), y))
        computed_s = time.monotonic()
        if trainer.step() is not None:
            log.step(number, world_size, began_s, computed_s, time.monotonic())


def time_handovers(log: Log) -> None:
    """Note how long each end of a hand-over took; the rest of it is as it is."""
    from fallow.process_group import membership_client, state_transfer

    send, receive = state_transfer.send_state, state_transfer.receive_state

    def timed_send(*arguments: Any) -> int:
        began_s = time.monotonic()
        sent = send(*arguments)
        log.moved("sent", sent, began_s, time.monotonic())
        return sent

    def timed_receive(*arguments: Any) -> object:
        began_s = time.monotonic()
        state = receive(*arguments)
        log.moved("received", 0, began_s, time.monotonic())
        return state

    for name, timed in (("send_state", timed_send), ("receive_state", timed_receive)):
        setattr(membership_client, name, timed)  # where the seat looks them up


if __name__ == "__main__":
    main()
