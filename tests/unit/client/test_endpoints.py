"""An export's endpoints are followed when the server no longer knows where the watch was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from pykcp.aio.owner import spawn
from pykcp.client.informers import ExportInformers
from pykcp.client.transport import Transport
from pykcp.client.workspaces import Workspace
from pykcp.machinery.status import Expired, ServiceUnavailable, StatusError
from pykcp.types import Object


class Server:
    """Lists of endpoint slices in turn; every watch has expired, until there are no more lists."""

    manager = "test"

    def __init__(self, *lists: StatusError | list[Object]) -> None:
        self._lists = list(lists)
        self.is_settled = asyncio.Event()

    async def ask(self, _method: str, _path: str, *_: Any, **__: Any) -> Object:
        found = self._lists.pop(0)
        if isinstance(found, StatusError):
            raise found
        return {
            "kind": "APIExportEndpointSliceList",
            "apiVersion": "apis.kcp.io/v1alpha1",
            "metadata": {"resourceVersion": "1"},
            "items": found,
        }

    async def lines(
        self, _path: str, _query: Any, _on_answer: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        if self._lists:
            raise Expired("too old")
        self.is_settled.set()
        await asyncio.Event().wait()
        yield b""


def endpoint_slice(*urls: str) -> Object:
    return {"status": {"endpoints": [{"url": url} for url in urls]}}


async def urls_after(server: Server, monkeypatch: Any) -> list[str]:
    """The endpoints that are followed in the end, by what is started and stopped."""
    followed: list[str] = []

    class Informer:
        def __init__(self, objects: Any, **_: Any) -> None:
            self.path = objects.workspace.base
            followed.append(self.path)

        def on(self, _: Any) -> None: ...
        def start(self) -> None: ...
        def list(self) -> list[Object]:
            return []

        async def stop(self) -> None:
            followed.remove(self.path)

    monkeypatch.setattr("pykcp.client.informers.ObjectInformer", Informer)
    monkeypatch.setattr("pykcp.client.informers._FIRST_PAUSE", 0.0)
    informers = ExportInformers(Workspace(cast("Transport", server), "root"), "widgets", "widgets")
    running = spawn(informers.run(), name="informers")
    await server.is_settled.wait()
    found = [*followed]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert followed == []
    return found


async def test_what_went_meanwhile_is_left(monkeypatch: Any) -> None:
    """Also a slice that was deleted, of which no event tells."""
    one = [endpoint_slice("https://a/services/apiexport/x/widgets")]
    assert await urls_after(Server(one, []), monkeypatch) == []


async def test_later_failures_are_waited_out(monkeypatch: Any) -> None:
    one = [endpoint_slice("https://a/services/apiexport/x/widgets")]
    server = Server(one, ServiceUnavailable("away"), one)
    assert await urls_after(server, monkeypatch) == ["/services/apiexport/x/widgets/clusters/*"]
