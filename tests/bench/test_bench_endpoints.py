"""Hundreds of exporters answer in one tick, each of them, and again at the next."""

import multiprocessing

import pytest

from bench.endpoints import serve
from collector.dcgm.fetch import Body, Fetcher, Limits, Request

ENDPOINTS = 400
"""Below the usual limit of 1,024 open files, the server's ends of the connections not counted."""

pytestmark = [pytest.mark.slow, pytest.mark.process]


def test_every_one_of_many_exporters_is_heard() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(ENDPOINTS, theirs), daemon=True)
    server.start()
    fetcher = Fetcher(Limits())
    try:
        requests = [Request(url=f"http://127.0.0.1:{port}/metrics") for port in ours.recv()]
        for _ in range(2):
            failed = [answer for answer in fetcher.fetch(requests) if not isinstance(answer, Body)]
            assert not failed, failed[:3]
    finally:
        fetcher.close()
        server.kill()
        server.join()
