"""Profiling a model's layers: what is one layer, what is refused, and that nothing of the model changes."""

import pytest
import torch
from torch import nn

from fallow.burst.profile import profile
from fallow.burst.table import BadTable, Layer, every_layer

pytestmark = pytest.mark.quick


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True)), nn.Dropout(0.1), nn.Linear(8, 3)
    )


class Row(nn.Module):
    """Layers in a row, by its own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Skip(Row):
    """A skip connection around a layer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return self.second(y + 1) + y.sum()


def test_each_layer_has_times_sizes_and_what_it_keeps() -> None:
    table = profile(model(), torch.randn(6), (4, 1, 2), name="small")
    layers = [node for node in table.layers if isinstance(node, Layer)]
    assert [layer.name for layer in layers] == ["0.0 Linear", "1 Dropout", "2 Linear"]
    assert [layer.parameters for layer in layers] == [6 * 8 + 8, 0, 8 * 3 + 3]
    assert [layer.output for layer in layers] == [8, 8, 3]
    assert [timing.batch for timing in layers[0].timings] == [1, 2, 4]
    assert all(t.forward_us > 0 and t.backward_us > 0 for layer in layers for t in layer.timings)
    assert layers[2].kept_bytes == 8 * 4
    assert table.hardware == "cpu"


def test_a_module_of_layers_in_a_row_is_traced() -> None:
    names = [layer.name for layer in every_layer(profile(Row(), torch.randn(6), (2,)).layers)]
    assert names == ["first Linear", "second Linear"]


def test_what_cannot_be_cut_into_layers_is_refused() -> None:
    with pytest.raises(BadTable, match=r"branches, or computes outside its modules.*nn\.Sequential"):
        profile(Skip(), torch.randn(6), (2,))
    with pytest.raises(BadTable, match="keep the first dimension"):
        profile(nn.Sequential(nn.Linear(6, 2), nn.Flatten(0)), torch.randn(6), (2,))
    with pytest.raises(BadTable, match="batches to measure at"):
        profile(model(), torch.randn(6), ())


def test_whole_numbers_may_be_a_models_input() -> None:
    words = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2))
    table = profile(words, torch.tensor([1, 2, 3]), (2, 1))
    assert [layer.output for layer in every_layer(table.layers)] == [12, 12, 2]


def test_parameters_and_their_gradients_are_left_as_they_were() -> None:
    measured = model()
    gradient = torch.ones(3, 8)
    measured[2].weight.grad = gradient
    before = [parameter.clone() for parameter in measured.parameters()]
    profile(measured, torch.randn(6), (2,))
    assert measured[2].weight.grad is gradient and torch.equal(gradient, torch.ones(3, 8))
    assert measured[0][0].weight.grad is None
    assert all(torch.equal(a, b) for a, b in zip(before, measured.parameters(), strict=True))
