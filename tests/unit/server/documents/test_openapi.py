"""Documents of changing definitions: made once at a time, and shared."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from pykcp.server.documents.openapi import OpenAPI


class Slow(OpenAPI):
    """Makes documents that name the definitions they were made of, when the test says so."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace())
        self.made: list[bytes] = []
        self.go = asyncio.Event()

    async def _document_of(self, cluster: str, name: str, definitions: Any) -> bytes:
        await self.go.wait()
        self.made.append(",".join(d.fingerprint for d in definitions).encode())
        return self.made[-1]


async def test_a_document_is_not_made_for_every_change() -> None:
    """A hundred definitions are added while it is made: the next has them all."""
    documents, definitions = Slow(), [SimpleNamespace(fingerprint="0")]

    def choose() -> Any:
        return tuple(definitions)

    asked = []
    for number in range(1, 101):
        asked.append(asyncio.ensure_future(documents._make("c", "v2.json", choose)))
        await asyncio.sleep(0)
        definitions.append(SimpleNamespace(fingerprint=str(number)))
    other = asyncio.ensure_future(documents._make("other", "v2.json", lambda: ()))
    await asyncio.sleep(0)
    documents.go.set()
    found = await asyncio.gather(*asked)
    assert found[0][0] == b"0"
    assert {len(body.split(b",")) for body, _ in found[1:]} == {101}
    assert len(documents.made) == 3
    assert (await other)[0] == b""
    again, tag = await documents._make("c", "v2.json", choose)
    assert (again, tag) == found[-1]
    assert len(documents.made) == 3
