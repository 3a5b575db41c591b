"""The rows of a frame as dictionaries. Pure."""

from typing import Any

import pandas as pd

from analytics import text


def records(frame: pd.DataFrame) -> list[Any]:
    """A dictionary a row; who asks for a query says of its rows which they are (``service.schemas.rows``).

    What is missing is NaN, NaT or ``None``, as pandas keeps it.
    """
    return frame.to_dict("records")


def known_records(frame: pd.DataFrame) -> list[Any]:
    """The same as a client has rows: what is missing is ``None``."""
    return [
        {name: None if text.missing(value) else value for name, value in row.items()}
        for row in records(frame)
    ]
