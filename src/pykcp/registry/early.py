"""An object that has to be stored before a server is ready to serve its kind."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Mapping

from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.terms import label_terms
from pykcp.registry import codec
from pykcp.registry.clock import Timestamps
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.storage.errors import RevisionMismatch
from pykcp.storage.interface import Store
from pykcp.storage.operations import PutKey
from pykcp.types import Object


async def create_early(
    store: Store, kind: GroupVersionResource, cluster: str, obj: Object, fields: Mapping[str, str]
) -> None:
    """Store an object in its complete form, unless there is one; `fields`: those of selectors."""
    metadata = obj["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    made = {"uid": str(uuid.uuid4()), "creationTimestamp": Timestamps(time.time)()}
    value = codec.encode({**obj, "metadata": {**metadata, **made}}, cluster)
    selectable = {**fields, "metadata.name": name, "metadata.namespace": namespace}
    key = object_key(kind_prefix(kind), cluster, namespace, name)
    with contextlib.suppress(RevisionMismatch):
        await store.write((PutKey(key, value, label_terms(None, selectable), expect=0),))
