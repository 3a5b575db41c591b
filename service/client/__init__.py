"""The one way in for readers: ``connect`` to a running service, or to the store's file when none runs."""

from service.client.errors import (
    BadOrder,
    BadParameter,
    ClientError,
    Forbidden,
    ImportFailed,
    JobEnded,
    NoData,
    NotAllowed,
    QueryFailed,
    QueryTooSlow,
    ServiceBusy,
    ServiceDown,
    StoreUnusable,
    UnknownJob,
    UnknownQuery,
    WrongState,
)
from service.client.reader import Client, connect, running

__all__ = [
    "BadOrder",
    "BadParameter",
    "Client",
    "ClientError",
    "Forbidden",
    "ImportFailed",
    "JobEnded",
    "NoData",
    "NotAllowed",
    "QueryFailed",
    "QueryTooSlow",
    "ServiceBusy",
    "ServiceDown",
    "StoreUnusable",
    "UnknownJob",
    "UnknownQuery",
    "WrongState",
    "connect",
    "running",
]
