"""Whether stored objects fit a schema that is narrower than the one they were written with."""

from __future__ import annotations

import copy

import orjson

from pykcp.clients.interface import Reader
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.schema.pruning import compile_pruner
from pykcp.machinery.schema.validation import compile_check
from pykcp.types import Object

_NAMED = 5
_PAGE = 100
_KNOWN = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


async def misfits(
    client: Reader, cluster: str, kind: GroupVersionResource, schema: Object
) -> tuple[int, list[str]]:
    """How many objects of a workspace a schema would reject or cut, and the first of them."""
    properties = {**_KNOWN, **(schema.get("properties") or {}), "metadata": {"type": "object"}}
    # A copy: what is compiled is changed on the way.
    full = from_json(orjson.loads(orjson.dumps({**schema, "properties": properties})))
    fits, prune = compile_check(full), compile_pruner(full)
    count, names = 0, list[str]()
    async for page in client.pages(cluster, kind, size=_PAGE):
        for obj in page:
            content = {**obj, "metadata": {}}
            dropped: list[str] = []
            prune(copy.deepcopy(content), None, dropped)
            if dropped or not fits(content):
                count += 1
                if len(names) < _NAMED:
                    names.append("/".join(filter(None, (meta.namespace(obj), meta.name(obj)))))
    return count, names


async def has_objects(client: Reader, cluster: str, kind: GroupVersionResource) -> bool:
    """Whether a workspace has objects of a kind."""
    async for page in client.pages(cluster, kind, size=1):
        if page:
            return True
    return False
