"""Reading a kcp's etcd: all objects below its prefix, at one revision."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from pykcp.programs.importing.decryption import Decryption
from pykcp.programs.importing.found import FoundObject, object_of, place_of
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.client import EtcdClient, NotSent
from pykcp.storage.etcd.settings import EtcdSettings

_log = logging.getLogger(__name__)
_KEYS_PER_PAGE = 500
_SECONDS = 30.0
_PATIENCE = 10.0
"""Seconds for which an etcd may not answer yet: one that was just started has to elect itself first."""
_PAUSE = 0.2


async def objects_in_etcd(
    settings: EtcdSettings, decryption: Decryption, unread: list[str]
) -> AsyncIterator[FoundObject]:
    """Raises StoreError. What cannot be read is logged, and its key added to `unread`."""
    client = EtcdClient(settings)
    prefix = f"/{settings.prefix.strip('/')}/"
    start, end, revision = prefix.encode(), prefix[:-1].encode() + b"0", 0
    try:
        while True:
            request = messages.RangeRequest(
                key=start, range_end=end, limit=_KEYS_PER_PAGE, revision=revision
            )
            page = await _range(client, request)
            revision = revision or page.header.revision
            for kv in page.kvs:
                key = kv.key.decode()
                place = place_of(key, prefix)
                if place is None:
                    _log.info("%s is not an object", key)
                    continue
                try:
                    found = object_of(place, decryption.plain(key, kv.value))
                except ValueError as error:
                    _log.error("%s cannot be read: %s", key, error)
                    unread.append(key)
                else:
                    yield found
            if not page.more:
                return
            start = page.kvs[-1].key + b"\0"
    finally:
        await client.close()


async def _range(client: EtcdClient, request: Any) -> Any:
    """A page; servers that cannot be reached are tried again for a while."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return await client.range(request, _SECONDS)
        except NotSent:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE)
