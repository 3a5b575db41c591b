"""A job's speeds where none was measured: predicted from its layers, corrected by what was measured. Pure."""

from collections.abc import Mapping
from statistics import median


def completed(
    measured: Mapping[int, float], predicted: Mapping[int, float]
) -> tuple[dict[int, float], frozenset[int]]:
    """Seconds a step by world size, and the sizes at which that is a prediction.

    A measurement always wins, and so does the line between two of them: predictions stand below the smallest
    measured size and above the largest. Where a size has both, their ratio (the median of several) corrects
    the others: what a step costs besides its layers is in what was measured alone.
    """
    if not measured:
        return dict(predicted), frozenset(predicted)
    both = [measured[size] / predicted[size] for size in measured if size in predicted]
    ratio = median(both) if both else 1.0
    low, high = min(measured), max(measured)
    added = {size: seconds * ratio for size, seconds in predicted.items() if not low <= size <= high}
    return {**added, **measured}, frozenset(added)
