"""What whoever shows or keeps a chart needs of it: its Vega-Lite specification. Loads no Altair."""

from typing import Protocol


class Drawing(Protocol):
    """A chart: Altair's, or a look filled with rows (``service.charts.cache``)."""

    def to_dict(self, *, validate: bool = True) -> dict[str, object]:
        """The specification as JSON, with its rows; held against the schema unless told not to."""
