"""`/services/tree/clusters/<path>`: all workspaces below one, in one response. Not in kcp.

It returns what a walk with ordinary requests would return: the children of a workspace are
included only if the user may list workspaces in it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import orjson

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.attributes import Decision
from pykcp.machinery import labels
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACES
from pykcp.machinery.status import BadRequest, Forbidden, MethodNotAllowed, NotFound
from pykcp.registry.stored import StoreReader
from pykcp.server.call import Call, integer
from pykcp.server.media.answers import is_plain_json, send_long, send_object
from pykcp.virtual.framework import Parts, VirtualView, Visit
from pykcp.virtual.tree_visibility import Inactive, TreeVisibility
from pykcp.virtual.tree_walk import TreeItem, Walk

API_VERSION = "tenancy.pykcp.io/v1alpha1"
_CHUNK = 500
_encode = msgspec.json.Encoder().encode


class TreeWorkspace:
    name = "tree"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts, store: StoreReader, inactive: Inactive) -> None:
        self._lookup = parts.lookup
        self._view = TreeView(parts, store, inactive)

    def visit(self, path: str) -> Visit | None:
        place = split_path(path)
        if place is None or place[1] != "/":
            return None
        # Where there is none, strangers shall not learn it here.
        return Visit(self._view, self._lookup.cluster_of(place[0]) or "system:nowhere", "/")


def split_path(path: str) -> tuple[str, str] | None:
    """`/clusters/<path of a workspace>/rest` → (path, `/rest`)."""
    head, _, rest = path.removeprefix("/clusters/").partition("/")
    if not path.startswith("/clusters/") or head == clusters.WILDCARD:
        return None
    return (head, f"/{rest}") if clusters.is_valid_path(head) else None


class TreeView(VirtualView):
    def __init__(self, parts: Parts, store: StoreReader, inactive: Inactive) -> None:
        self._parts, self._store, self._inactive = parts, store, inactive
        self.paths = self

    async def authorize(self, call: Call) -> Decision:
        return await self._visibility(call).of_top()

    def _visibility(self, call: Call) -> TreeVisibility:
        return TreeVisibility(self._parts, self._store, self._inactive, call.user, call.cluster)

    def handle(self, call: Call) -> Coroutine[Any, Any, None] | None:
        if call.info.method != "GET":
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        self._check_use(call)
        return self._show(call)

    def _check_use(self, call: Call) -> None:
        inactive = self._inactive(call.cluster)
        if inactive is None:
            asked = call.exchange.request.path.rpartition("/clusters/")[2].rstrip("/")
            raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, asked)
        if inactive:
            why = "logical cluster is marked inactive"
            raise Forbidden.resource("core.kcp.io", "logicalclusters", call.cluster, why)

    async def _show(self, call: Call) -> None:
        call.negotiate()
        limit, depth = _not_negative(call, "limit"), _not_negative(call, "depth")
        wanted = await _filter(call)
        top = self._parts.lookup.canonical_path(call.cluster)
        has_counts = call.info.param("counts") != "false"
        walk = Walk(self._store, self._visibility(call), has_counts=has_counts)
        after = _decode_token(call.info.param("continue"))
        found: list[TreeItem] = []
        token = ""
        async for item in walk.items(call.cluster, top, depth, after):
            if not wanted(item):
                continue
            if limit and len(found) == limit:
                token = _encode_token(found[-1].path[len(top) + 1 :])
                break
            found.append(item)
        metadata = {"resourceVersion": str(self._store.revision)}
        if token:
            metadata["continue"] = token
        await _send(call, metadata, top, found)


def _not_negative(call: Call, name: str) -> int:
    found = integer(call, name)
    if found < 0:
        raise BadRequest(f"{name} must not be negative")
    return found


async def _filter(call: Call) -> Callable[[TreeItem], bool]:
    """By phase and labels. What is left out may have something below it that is not."""
    phases = frozenset(filter(None, call.info.param("phase").split(",")))
    text = call.info.param("labelSelector")
    try:
        selector = await in_slices(labels.parse_in_steps(text)) if text else None
    except labels.SelectorError as error:
        raise BadRequest(str(error)) from error

    def wanted(item: TreeItem) -> bool:
        if phases and item.phase not in phases:
            return False
        return selector is None or selector.matches(item.labels)

    return wanted


def _encode_token(relative: str) -> str:
    token = orjson.dumps({"v": API_VERSION, "after": relative})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _decode_token(token: str) -> list[str]:
    """The names that lead to the last workspace of the page before."""
    if not token:
        return []
    try:
        content = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        after = content["after"] if content["v"] == API_VERSION else ""
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"continue key is not valid: {error}") from error
    if not isinstance(after, str) or not clusters.is_valid_path(after):
        raise BadRequest("continue key is not valid")
    return after.split(clusters.SEPARATOR)


async def _send(call: Call, metadata: dict[str, str], top: str, found: list[TreeItem]) -> None:
    head = {
        "kind": "WorkspaceTree",
        "apiVersion": API_VERSION,
        "metadata": metadata,
        "path": top,
        "cluster": call.cluster,
    }
    if not is_plain_json(call):
        send_object(call, {**head, "items": orjson.loads(_encode(found))})
        return
    parts = [orjson.dumps(head)[:-1] + b',"items":[']
    for start in range(0, len(found), _CHUNK):
        if start:
            parts.append(b",")
        parts.append(_encode(found[start : start + _CHUNK])[1:-1])
    parts.append(b"]}\n")
    await send_long(call, parts)
