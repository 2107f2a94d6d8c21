"""Concurrent requests with several connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pykcp.cli.plugins.access.rest import RestClient

T = TypeVar("T")
_HELPERS = 6
_FEW = 4


def for_each(client: RestClient, items: Sequence[T], act: Callable[[RestClient, T], None]) -> None:
    """Call `act` for every item; concurrently, each with its own connection, if there are many."""
    if len(items) <= _FEW:
        for item in items:
            act(client, item)
        return
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue

    clients: SimpleQueue[RestClient] = SimpleQueue()
    for _ in range(_HELPERS):
        clients.put(client.again())

    def with_one(item: T) -> None:
        own = clients.get()
        try:
            act(own, item)
        finally:
            clients.put(own)

    with ThreadPoolExecutor(_HELPERS) as pool:
        for _ in pool.map(with_one, items):
            pass
    while not clients.empty():
        clients.get().close()
