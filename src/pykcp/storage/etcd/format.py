"""The version of what is stored in etcd: one key.

    {"format": 1}

An older program refuses a newer format, so that it does not misread it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pykcp.storage.errors import StoreError
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.client import EtcdClient
from pykcp.storage.etcd.envelope import Keyspace

FORMAT = 1


class StoredFormat(msgspec.Struct, frozen=True):
    format: int = FORMAT


async def check_format(client: EtcdClient, keyspace: Keyspace, seconds: float) -> None:
    """Raise StoreError if this program does not know the format; mark a store that has none."""
    request = messages.RangeRequest(key=keyspace.format)
    found = (await client.range(request, seconds)).kvs
    if not found:
        await client.txn(_mark(keyspace), seconds)
        found = (await client.range(request, seconds)).kvs
    try:
        stored = msgspec.json.decode(found[0].value, type=StoredFormat)
    except msgspec.MsgspecError as error:
        raise StoreError(f"{keyspace.format.decode()} in etcd cannot be read: {error}") from error
    if stored.format != FORMAT:
        raise StoreError(
            f"etcd below {keyspace.start.decode()} has format {stored.format}, this program knows"
            f" {FORMAT}: start the program that wrote it, or a newer one"
        )


async def claim(client: EtcdClient, keyspace: Keyspace, offset: int, seconds: float) -> None:
    """Begin a store whose revisions are ahead of etcd's by an offset: they are newer than all that
    a lost store has given out. Raises StoreError if there is one.
    """
    everything = messages.RangeRequest(key=keyspace.start, range_end=keyspace.end, count_only=True)
    if (await client.range(everything, seconds)).count:
        raise StoreError(
            f"etcd already has a store below {keyspace.start.decode()}: choose another"
            " --etcd-prefix, and keep this one to go back to"
        )
    numbering = messages.PutRequest(key=keyspace.numbering, value=b"%d" % offset)
    answer = await client.txn(_mark(keyspace, numbering), seconds)
    if not answer.succeeded:
        raise StoreError(f"etcd already has a store below {keyspace.start.decode()}")


def _mark(keyspace: Keyspace, *more: Any) -> Any:
    """Write the format, and more with it, unless there is one."""
    absent = messages.Compare(
        result=messages.EQUAL, target=messages.MOD, key=keyspace.format, mod_revision=0
    )
    put = messages.PutRequest(key=keyspace.format, value=msgspec.json.encode(StoredFormat()))
    writes = [messages.RequestOp(request_put=one) for one in (put, *more)]
    return messages.TxnRequest(compare=[absent], success=writes)
