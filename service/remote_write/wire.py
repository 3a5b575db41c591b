"""The Prometheus Remote-Write protocol, version 1.0: its messages and their compression.

Source: https://prometheus.io/docs/specs/prw/remote_write_spec/ and prometheus/prompb/types.proto. The four
messages are declared here instead of generated, so that no compiler of protocol buffers is needed.
"""

import struct
from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
"""What the specification asks of every request; 0.1.0 is what it calls its version 1.0."""
STALE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
"""The value that ends a series (a NaN with bits of its own): without it a query shows the last value for five
minutes more."""

_STRING, _DOUBLE, _INT64, _MESSAGE = 9, 1, 3, 11
_ONE, _MANY = 1, 3
_FIELDS = {
    "Label": (("name", 1, _STRING, _ONE, ""), ("value", 2, _STRING, _ONE, "")),
    "Sample": (("value", 1, _DOUBLE, _ONE, ""), ("timestamp", 2, _INT64, _ONE, "")),
    "TimeSeries": (("labels", 1, _MESSAGE, _MANY, "Label"), ("samples", 2, _MESSAGE, _MANY, "Sample")),
    "WriteRequest": (("timeseries", 1, _MESSAGE, _MANY, "TimeSeries"),),
}


def _declared() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="fallow/prompb.proto", package="fallow", syntax="proto3")
    for name, fields in _FIELDS.items():
        kind = file.message_type.add(name=name)
        for field, number, of, label, inner in fields:
            field_added = kind.field.add(name=field, number=number, type=of, label=label)
            if inner:
                field_added.type_name = f".fallow.{inner}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"fallow.{name}"))
        for name in _FIELDS
    }


_KINDS = _declared()
TimeSeries, WriteRequest = _KINDS["TimeSeries"], _KINDS["WriteRequest"]


def body(series: Iterable[Any]) -> bytes:
    """The request with these time series, compressed."""
    import pyarrow as pa

    plain = WriteRequest(timeseries=series).SerializeToString()
    return bytes(pa.compress(plain, codec="snappy", asbytes=True))
