"""What every answer of a service on simulated data bears: a header, and a mark in Arrow tables.

Lists of rows stay lists of the same rows, so that no reader breaks on it.
"""

from typing import TYPE_CHECKING

from starlette.types import Message, Receive, Send

from service.api.gate import App

if TYPE_CHECKING:
    import pyarrow as pa

HEADER = "Fallow-Simulated"
METADATA = b"fallow_simulated"
TRUE = b"true"


def marked(app: App) -> App:
    """The same application, whose answers have the header ``Fallow-Simulated: true``."""

    async def with_header(scope: Message, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (HEADER.lower().encode(), TRUE)]}
            await send(message)

        await app(scope, receive, sending)

    return with_header


def marked_table(table: "pa.Table") -> "pa.Table":
    """The table with ``fallow_simulated`` in the metadata of its schema, which Parquet files keep."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA: TRUE})
