"""What a plug-in cannot train is refused at once, with what to do instead."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed: pip install .[test]")
lightning = pytest.importorskip("lightning", reason="lightning is not installed: pip install .[test]")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install .[test]"
)

from fallow.errors import Mistake  # noqa: E402
from fallow.plugins.accelerate import ElasticAccelerator  # noqa: E402
from fallow.plugins.lightning import ElasticStrategy  # noqa: E402
from fallow.plugins.transformers import ElasticTrainer, ElasticTrainingArguments  # noqa: E402

DATA = torch.utils.data.TensorDataset(torch.randn(24, 3), torch.randn(24, 1))


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    yield
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


def loader(**options: Any) -> Any:
    return torch.utils.data.DataLoader(DATA, **{"batch_size": 8, **options})


def accelerator(**options: Any) -> ElasticAccelerator:
    return ElasticAccelerator(**{"max_micro_batch": 3, "epochs": 2, "cpu": True, **options})


def test_accumulation_is_not_asked_for_twice() -> None:
    with pytest.raises(Mistake, match="multiply the batch size"):
        accelerator(gradient_accumulation_steps=4)


def test_accelerate_trains_with_one_optimizer() -> None:
    model = torch.nn.Linear(3, 1)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2)]
    with pytest.raises(Mistake, match="one optimizer"):
        accelerator().prepare(model, *optimizers)


def test_accelerate_needs_all_its_parts_before_it_trains() -> None:
    mine = accelerator()
    with pytest.raises(Mistake, match="prepare"):
        next(mine.epochs())
    prepared = mine.prepare(loader())
    with pytest.raises(Mistake, match="iterate over the prepared loader"):
        _ = mine.trainer
    with pytest.raises(Mistake, match="the model and its optimizer"):
        next(iter(prepared))


def test_a_loader_without_a_batch_size_has_no_global_batch() -> None:
    with pytest.raises(Mistake, match="batch_size"):
        accelerator().prepare(loader(batch_size=None))


def test_accelerate_resumes_from_an_elastic_checkpoint_only() -> None:
    with pytest.raises(Mistake, match="checkpoint"):
        accelerator().load_state("folder")


def test_accelerate_takes_no_closure_and_no_backward_options() -> None:
    mine, model = accelerator(), torch.nn.Linear(3, 1)
    train, model, optimizer = mine.prepare(loader(), model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in train:
        loss = torch.nn.functional.mse_loss(model(x), y)
        with pytest.raises(Mistake, match="retain_graph"):
            mine.backward(loss, retain_graph=True)
        with pytest.raises(Mistake, match="closure"):
            optimizer.step(lambda: 0.0)
        break


def test_a_loss_over_counted_items_is_averaged_over_the_global_batch() -> None:
    torch.manual_seed(0)
    mine, model = accelerator(epochs=1), torch.nn.Linear(3, 1)
    x, y = DATA.tensors
    counts = (x[:, 0] > 0).float()[:, None]
    expected = float((((model(x) - y) ** 2) * counts).sum().detach() / counts.sum())
    train, model, optimizer = mine.prepare(
        loader(batch_size=24), model, torch.optim.SGD(model.parameters(), lr=0.1)
    )
    for inputs, targets in train:
        kept = (inputs[:, 0] > 0).float()[:, None]
        squares = ((model(inputs) - targets) ** 2 * kept).sum()
        mine.backward(squares / kept.sum().clamp(min=1), count=float(kept.sum()))
        optimizer.step()
    assert mine.committed is not None
    assert mine.committed.loss == pytest.approx(expected, rel=1e-5)


def test_accelerate_reads_other_loaders_whole() -> None:
    mine, model = accelerator(), torch.nn.Linear(3, 1)
    parts = mine.prepare(loader(), model, torch.optim.SGD(model.parameters(), lr=0.1), loader(batch_size=7))
    train, model, optimizer, valid = parts
    assert len(train) == 3, "counted in steps of the global batch"
    seen = []
    for epoch in mine.epochs():
        for x, y in train:
            assert len(x) <= 3
            mine.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
        seen.append((epoch, sum(len(x) for x, _ in valid)))
    assert seen == [(0, 24), (1, 24)]


class Module(lightning.LightningModule):
    def __init__(self, **flags: bool) -> None:
        super().__init__()
        self.body, self.flags = torch.nn.Linear(3, 1), flags
        self.automatic_optimization = not flags.get("manual")

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        kept = (batch[0][:, 0] > 0).float()[:, None]
        squares = ((self.body(batch[0]) - batch[1]) ** 2 * kept).sum()
        return {"loss": squares / kept.sum().clamp(min=1), "count": float(kept.sum())}

    def configure_optimizers(self) -> Any:
        optimizers = [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]
        return optimizers if self.flags.get("two") else optimizers[0]


class Moving(Module):
    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch


def fit(module: Any, data: Any = None, *, path: Any = None, **options: Any) -> ElasticStrategy:
    strategy = ElasticStrategy(max_micro_batch=3, device="cpu")
    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    trainer = lightning.Trainer(strategy=strategy, accelerator="cpu", **{"max_epochs": 1, **quiet, **options})
    trainer.fit(module, loader() if data is None else data, ckpt_path=path)
    return strategy


@pytest.mark.parametrize(
    ("module", "options", "told"),
    [
        (lambda: Module(manual=True), {}, "optimizes manually"),
        (lambda: Module(two=True, manual=True), {}, "2 optimizers"),
        (Module, {"accumulate_grad_batches": 2}, "multiply the loader's batch size"),
        (Module, {"limit_train_batches": 2}, "limits the training batches"),
        (Module, {"max_epochs": -1}, "needs an end"),
        (Moving, {}, "collate function"),
    ],
)
def test_lightning_says_what_cannot_be_elastic(module: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(Mistake, match=told):
        fit(module(), **options)


def test_lightning_trains_from_a_torch_loader() -> None:
    with pytest.raises(Mistake, match="from a torch DataLoader, not from"):
        fit(Module(), [next(iter(loader()))])


def test_lightning_does_not_go_on_from_its_own_checkpoint(tmp_path: Any) -> None:
    plain = lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_progress_bar=False, default_root_dir=tmp_path
    )
    plain.fit(Module(), loader())
    plain.save_checkpoint(tmp_path / "own.ckpt")
    with pytest.raises(Mistake, match="elastic="):
        fit(Module(), path=tmp_path / "own.ckpt", max_epochs=2)


def test_lightning_averages_over_what_a_training_step_counts() -> None:
    torch.manual_seed(0)
    module = Module()
    x, y = DATA.tensors
    counts = (x[:, 0] > 0).float()[:, None]
    expected = float((((module.body(x) - y) ** 2) * counts).sum().detach() / counts.sum())
    strategy = fit(module, loader(batch_size=24))
    assert strategy.committed is not None
    assert strategy.committed.loss == pytest.approx(expected, rel=1e-5)


class Linear(torch.nn.Linear):
    def forward(self, x: Any, labels: Any) -> Any:
        return {"loss": torch.nn.functional.mse_loss(super().forward(x), labels)}


def hugging(path: Any, kind: Any = ElasticTrainingArguments, **options: Any) -> Any:
    data = [{"x": x, "labels": y} for x, y in DATA]
    arguments = kind(output_dir=str(path), use_cpu=True, report_to=[], disable_tqdm=True, **options)
    return ElasticTrainer(model=Linear(3, 1), args=arguments, train_dataset=data)


def test_transformers_arguments_form_no_world_of_their_own(tmp_path: Any) -> None:
    with pytest.raises(Mistake, match="import ElasticTrainer as Trainer, ElasticTrainingArguments"):
        hugging(tmp_path, transformers.TrainingArguments)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"auto_find_batch_size": True}, "auto_find_batch_size"),
        ({"train_sampling_strategy": "group_by_length"}, "train_sampling_strategy"),
        ({"neftune_noise_alpha": 5.0}, "NEFTune"),
    ],
)
def test_transformers_trainer_says_what_cannot_be_elastic(
    tmp_path: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(Mistake, match=told):
        hugging(tmp_path, **options).train()


def test_the_global_batch_is_what_one_process_would_train_on(tmp_path: Any) -> None:
    trainer = hugging(
        tmp_path,
        per_device_train_batch_size=3,
        gradient_accumulation_steps=4,
        num_train_epochs=2,
        save_strategy="no",
    )
    with pytest.raises(Mistake, match="nothing is trained yet"):
        _ = trainer.elastic
    trainer.train()
    assert trainer.state.global_step == 4, "24 samples, 12 a step, twice"
    assert (trainer.elastic.recipe.global_batch, trainer.elastic.recipe.max_micro_batch) == (12, 3)
    assert trainer.args.gradient_accumulation_steps == 4


def test_the_rest_of_fallow_knows_no_framework() -> None:
    import subprocess

    asked = "import fallow.job, sys; print({'accelerate', 'lightning', 'transformers'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
