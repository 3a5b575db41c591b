"""A PyTorch program with a share of the GPU's memory: what it may still take, and what not."""

import fallow
from tests.gpu import place
from tests.gpu.loads.pipe import Words, serve


def main() -> None:
    """``take FRACTION`` of the whole GPU; whether there was memory for it."""
    torch, device = place.torch(), place.torch_device()
    fallow.listen()

    def told(words: Words) -> dict[str, bool]:
        if place.dry:
            return {"taken": float(words[1]) < 0.5}
        total = torch.cuda.get_device_properties(0).total_memory
        try:
            torch.empty(int(total * float(words[1])), dtype=torch.uint8, device=device)
        except torch.OutOfMemoryError:
            return {"taken": False}
        return {"taken": True}

    serve(told)


if __name__ == "__main__":
    main()
