"""Which loop a script trains in that never asked for an elastic step, by the modules it had loaded. Pure."""

from collections.abc import Container

LOOPS = {
    "trl": "TRL's trainers are not elastic; a loop of your own over trainer.steps() is",
    "transformers.trainer": (
        "transformers' Trainer is not elastic; a loop of your own over trainer.steps() is, or Accelerate "
        "with fallow.plugins.accelerate"
    ),
    "lightning.pytorch.trainer": "Lightning is elastic with fallow.plugins.lightning's ElasticStrategy",
    "pytorch_lightning.trainer": (
        "Lightning is elastic with fallow.plugins.lightning's ElasticStrategy, from the package lightning"
    ),
    "accelerate": "Accelerate is elastic with fallow.plugins.accelerate's ElasticAccelerator",
    "deepspeed": "DeepSpeed shards over a fixed set of workers",
    "fastai": "fastai's Learner is not elastic; a loop of your own over trainer.steps() is",
    "keras": "Keras' fit() is not elastic",
    "tensorflow": "TensorFlow is not elastic here",
    "jax": "JAX is not elastic here",
}
"""The most particular first: TRL loads transformers, which loads Accelerate."""


def hint(loaded: Container[str]) -> str | None:
    """What to tell the owner of a script with these modules loaded; ``None`` when none of them is known."""
    return next((sentence for module, sentence in LOOPS.items() if module in loaded), None)
