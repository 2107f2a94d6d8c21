"""Who pays for views that are made anew because they are watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from pykcp.steps import Steps
from pykcp.types import Object
from pykcp.virtual.apiexport.surface import ViewKinds
from pykcp.virtual.apiexport.workspace import ApiExportWorkspace


class _Nothing:
    replica = None

    def listen(self, *_: Any) -> None:
        return

    def get_in_steps(self, *_: Any) -> Steps[Object | None]:
        yield
        return None


class _Stream:
    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def on_close(self, _closed: Callable[[], None]) -> None:
        return

    def end(self) -> None:
        self.ended.set()


class _Work:
    def __init__(self) -> None:
        self.paid: list[str] = []

    async def run(self, cluster: str, work: Coroutine[Any, Any, None]) -> None:
        self.paid.append(cluster)
        await work


async def test_the_cluster_of_the_export_pays() -> None:
    nothing: Any = _Nothing()
    work: Any = _Work()
    kinds = ViewKinds(nothing, nothing, nothing)
    exports = ApiExportWorkspace(nothing, kinds, nothing, work)
    view = exports.view(("provider", "e"))
    await view.prepare()
    assert work.paid == []  # a request asked for it
    call: Any = SimpleNamespace(info=SimpleNamespace(group="wild.west", resource="cowboys"))
    stream: Any = _Stream()
    view.opened(call, stream)  # what it shows is not known any more: it is looked at again
    async with asyncio.timeout(10):
        await stream.ended.wait()
    assert work.paid == ["provider"]
