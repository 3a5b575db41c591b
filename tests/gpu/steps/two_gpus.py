"""The story of ``two`` with a GPU each, over NCCL."""

from typing import Any

from tests.gpu.steps.two import story


def main() -> dict[str, Any]:
    """Grow, kill, shrink."""
    return {"figures": story("0,1", {}) + story("0,1", {}, "deterministic")}
