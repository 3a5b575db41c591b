"""The one way in for readers: ``connect`` to a running service, or to the store's file when none runs."""

from service.client.errors import (
    BadParameter,
    ClientError,
    ImportFailed,
    NoData,
    NotAllowed,
    QueryFailed,
    QueryTooSlow,
    ServiceBusy,
    ServiceDown,
    StoreUnusable,
    UnknownQuery,
)
from service.client.reader import Client, connect, running

__all__ = [
    "BadParameter",
    "Client",
    "ClientError",
    "ImportFailed",
    "NoData",
    "NotAllowed",
    "QueryFailed",
    "QueryTooSlow",
    "ServiceBusy",
    "ServiceDown",
    "StoreUnusable",
    "UnknownQuery",
    "connect",
    "running",
]
