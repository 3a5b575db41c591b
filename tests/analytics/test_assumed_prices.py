"""Assumed prices: each is a public instance's price by its GPUs, and what is copied is a configuration."""

import pytest

from analytics.vocabulary.assumed_prices import ASSUMED, SOURCE, as_configuration
from service.config.file import parse


@pytest.mark.parametrize(
    ("model", "per_gpu_hour"),
    [
        ("NVIDIA H100 80GB HBM3", 6.88),  # 55.04 / 8
        ("NVIDIA H200", 7.91),  # 63.296 / 8 = 7.912
        ("NVIDIA A100-SXM4-80GB", 3.43),  # 27.44705 / 8 = 3.4309
        ("NVIDIA A100-SXM4-40GB", 2.74),  # 21.957642 / 8 = 2.7447
        ("NVIDIA L4", 0.80),
        ("Tesla T4", 0.53),
    ],
)
def test_a_gpus_part_of_its_instance(model: str, per_gpu_hour: float) -> None:
    assert ASSUMED[model].per_gpu_hour == per_gpu_hour


def test_what_is_copied_is_taken_and_says_that_it_is_assumed() -> None:
    text = as_configuration(["Tesla T4", "NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "Tesla T4"])
    prices = parse(text, origin="f").config.prices
    assert prices.per_gpu_hour == {"NVIDIA H100 80GB HBM3": 6.88, "Tesla T4": 0.53}
    assert (prices.currency, text.count("Tesla T4")) == ("USD", 1)
    assert SOURCE in text.splitlines()[0] and '# "NVIDIA H100 PCIe" =' in text


def test_a_models_name_is_no_configuration() -> None:
    hostile = 'x" = 1\n[api]\nhost = "0.0.0.0"\n#\\'
    config = parse(as_configuration([hostile, "Tesla T4"]), origin="f").config
    assert config.api.host == "127.0.0.1" and config.prices.per_gpu_hour == {"Tesla T4": 0.53}
