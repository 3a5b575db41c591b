"""What a step of ``fallow`` costs beside a plain loop's, alone and as a world of one that may grow."""

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import fallow
from tests.gpu import place
from tests.gpu.answers import Figure, at_most, told
from tests.gpu.waits import Counting, more_waits

Took = tuple[float, float, float]
STEPS, WARM = (4, 4) if place.dry else (40, 10)
CHECKED = 2  # first steps, in which the library looks at the form of the loss and may wait for the device
ROUNDS = (False, True, True, False)
"""Plain or ours: the better of two counts, for who comes first has a cooler machine."""
LONG_S, RATIO, SHORT_S = 0.020, 1.01, 50e-6
"""A hundredth of steps over 20 ms; 50 us more of shorter ones, where a hundredth is less than a launch."""


def main() -> dict[str, Any]:
    """Three sizes; ResNet-50 where torchvision is."""
    torch = place.torch()
    models: dict[str, Callable[[], tuple[Any, Any, int]]] = {"MLP of 0.3 M": lambda: _mlp(torch)}
    if not place.dry:
        models |= {"transformer of 124 M, bf16": lambda: _transformer(torch)}
        try:
            from torchvision.models import resnet50

            images = torch.randn(64, 3, 224, 224)
            models["ResNet-50 of 64, bf16"] = lambda: (resnet50().to(place.torch_device()), images, 1000)
        except ImportError:
            pass
    figures: list[Figure] = []
    for name, make in models.items():
        figures += _compared(torch, name, make)
    return {"figures": figures}


def _compared(torch: Any, name: str, make: Callable[[], tuple[Any, Any, int]]) -> list[Figure]:
    rounds: dict[bool, list[Took]] = {False: [], True: []}
    for elastic in ROUNDS:
        rounds[elastic].append(_steps(torch, *make(), elastic=elastic, amp="bf16" in name))
    (plain, _, waits_plain), (ours, _, waits) = best = min(rounds[False]), min(rounds[True])
    figures: list[Figure] = []
    for title, (took, launched, _) in zip(("a plain step", "ours"), best, strict=True):
        figures.append(told(f"{name}: {title}", took * 1000, "ms"))
        figures.append(told(f"{name}: {title}, until the host waits", launched * 1000, "ms"))
    if not place.dry:
        bar = plain * RATIO if plain > LONG_S else plain + SHORT_S
        figures.append(at_most(f"{name}: ours beside its bar", ours / bar, 1.0))
    return [*figures, more_waits(name, waits, waits_plain)]


def _steps(torch: Any, net: Any, x: Any, classes: int, *, elastic: bool, amp: bool) -> Took:
    """Median seconds of a step, of them those before the host waits for the loss; and waits for the device.

    Both loops read their samples and their loss in each step: else a step would end before its work does.
    """
    device = place.torch_device()
    y = torch.randint(0, classes, x.shape[:1] if x.is_floating_point() else x.shape)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def loss(inputs: Any, wanted: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            out = net(inputs.to(device))
            return torch.nn.functional.cross_entropy(out.flatten(0, -2), wanted.to(device).flatten())

    ends, reads = list[float](), list[float]()
    counted = Counting(CHECKED, WARM)
    data = torch.utils.data.TensorDataset(x, y)
    if elastic:
        job = fallow.connect(device=str(device))
        trainer = job.elastic(net, optimizer, global_batch=len(x), max_micro_batch=len(x))
        for _, batches in trainer.steps(data, STEPS + WARM, shuffle=False):
            with counted:
                for inputs, wanted in batches:
                    trainer.backward(loss(inputs, wanted))
                done = trainer.step()
                assert done is not None
                reads.append(time.perf_counter())
                float(done.loss)
            ends.append(time.perf_counter())
    else:
        for _ in range(STEPS + WARM):
            with counted:
                inputs, wanted = torch.utils.data.default_collate([data[at] for at in range(len(x))])
                optimizer.zero_grad()
                value = loss(inputs, wanted)
                value.backward()
                optimizer.step()
                reads.append(time.perf_counter())
                float(value.detach().item())
            ends.append(time.perf_counter())
    took = [after - before for before, after in pairwise(ends[WARM - 1 :])]
    launched = [read - before for before, read in zip(ends[WARM - 1 :], reads[WARM:], strict=False)]
    return statistics.median(took), statistics.median(launched), counted.a_step


def _mlp(torch: Any) -> tuple[Any, Any, int]:
    width = 32 if place.dry else 384
    layers = [torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).to(place.torch_device())
    return net, torch.randn(64, 64), 10


def _transformer(torch: Any) -> tuple[Any, Any, int]:
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
    net = torch.nn.Sequential(
        torch.nn.Embedding(50257, 768), torch.nn.TransformerEncoder(layer, 12), torch.nn.Linear(768, 50257)
    )
    return net.to(place.torch_device()), torch.randint(0, 50257, (4, 512)), 50257
