"""Models that steps on filling gaps and on layers measure: built on the device, small in a dry run."""

from typing import Any

from tests.gpu import place

VGG_16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Channels of its convolutions; 0 is a maximum over 2 by 2."""
WORDS = 100 if place.dry else 50257


def vgg_16(torch: Any) -> Any:
    """Layer for layer that of torchvision and of the published profile, without taking time for its start."""
    nn, into = torch.nn, 3
    layers: list[Any] = []
    for channels in (4, 0) if place.dry else VGG_16:
        if channels == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(into, channels, 3, padding=1), nn.ReLU(inplace=True)]
        into = channels
    wide, side = (8, 2) if place.dry else (4096, 7)
    layers += [nn.AdaptiveAvgPool2d(side), nn.Flatten(), nn.Linear(into * side * side, wide)]
    layers += [nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(wide, wide), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Dropout(), nn.Linear(wide, 1000)).to(place.torch_device())


def resnet_50(torch: Any) -> Any:
    """torchvision's; where that isn't, and in a dry run, convolutions with normalization."""
    try:
        if place.dry:
            raise ImportError
        from torchvision.models import resnet50

        return resnet50().to(place.torch_device())
    except ImportError:
        nn, width, into = torch.nn, 4 if place.dry else 256, 3
        layers: list[Any] = []
        for _ in range(1 if place.dry else 16):
            layers += [nn.Conv2d(into, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(2)] if into == 3 else []
            into = width
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))
        return net.to(place.torch_device())


def images(torch: Any, batch: int) -> Any:
    """So many random ones, on the host."""
    side = 8 if place.dry else 224
    return torch.randn(batch, 3, side, side)


def transformer(torch: Any, width: int, blocks: int) -> Any:
    """Blocks of plain layers, as language models have them: each of them is a gate."""
    nn = torch.nn
    if place.dry:
        width, blocks = 16, 1

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
            self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            parts = self.into(self.before(x)).unflatten(-1, (3, -1, min(64, width))).permute(2, 0, 3, 1, 4)
            seen = self._attention(*parts.unbind(0))
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            return x + self.down(self.act(self.up(self.behind(x))))

        def _attention(self, q: Any, k: Any, v: Any) -> Any:
            if place.dry:  # the pretend device has no fused attention
                return (q @ k.transpose(-1, -2)).softmax(-1) @ v
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def made() -> Any:
        embedding, head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        return nn.Sequential(embedding, *(Block() for _ in range(blocks)), nn.LayerNorm(width), head)

    if place.dry:
        return made().to(place.torch_device())
    with place.torch_device():  # a thousand million numbers take the host's generator half a minute
        return made()


def trains(torch: Any, net: Any, optimizer: Any, x: Any, *, words: bool) -> None:
    """One step in bf16, of images by a mean, of words by what comes next; nothing is waited for."""
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not place.dry):
        out = net(x)
        if words:
            loss = torch.nn.functional.cross_entropy(out[:, :-1].flatten(0, 1), x[:, 1:].flatten())
        else:
            loss = out.square().mean()
    loss.backward()
    optimizer.step()
