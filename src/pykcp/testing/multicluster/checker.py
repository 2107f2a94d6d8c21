"""What must hold between a workspace and its clusters when nothing changes any more.

I1  what is assigned to a cluster exists there, with the content that was assigned
I2  what carries the label of a registration is assigned, or is being deleted
I3  the status of an object is that of its copy (of one that is divided: the sum of its parts)
I4  the replicas of all parts are those of the whole
I5  no object of somebody else was changed
I6  every assigned object has the finalizer of its syncer, and no other object has it
I7  nothing was deleted without proof (from the requests that were seen)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pykcp.multicluster.names import (
    CLUSTER_LABEL,
    DOWNSTREAM_CLUSTER,
    ORIGIN_UID,
    OWNED_BY,
    ROOT_UID,
    Locator,
    registration_label,
    syncer_finalizer,
)
from pykcp.multicluster.syncer.drift import covers
from pykcp.multicluster.syncer.projections import reported_status
from pykcp.multicluster.syncer.render import render
from pykcp.testing.client import TestClient
from pykcp.testing.multicluster.faults import SeenRequest
from pykcp.testing.multicluster.workspaces import CLUSTERS
from pykcp.types import Object

_VOLATILE = ("resourceVersion", "managedFields")


@dataclass(slots=True)
class Checker:
    """Compares a workspace with its clusters; `problems` says what is wrong."""

    workspace: TestClient
    clusters: dict[str, TestClient]
    """Clients of the clusters, by the names of the Cluster objects."""
    resources: Sequence[str]
    """As plural.group, in version v1."""
    _foreign: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def note_foreign(self) -> None:
        """Remember everything in the clusters that belongs to somebody else (I5)."""
        self._foreign = dict(self._found_foreign())

    def problems(self) -> list[str]:
        """Everything that does not hold now."""
        found = list(self._foreign_problems())
        for name, client in self.clusters.items():
            cluster = self.workspace.get(f"{CLUSTERS}/{name}")
            if cluster.status != 200:
                continue
            for resource in self.resources:
                found += self._type_problems(name, cluster.json, client, resource)
        for resource in self.resources:
            found += self._root_problems(resource)
        return found

    # --- one type in one cluster

    def _type_problems(
        self, name: str, cluster: Object, client: TestClient, resource: str
    ) -> Iterator[str]:
        uid = cluster["metadata"]["uid"]
        workspace = cluster["metadata"]["annotations"]["kcp.io/cluster"]
        plural, _, group = resource.partition(".")
        leaves = _items(self.workspace, resource)
        label = registration_label(uid)
        copies = {
            (copy["metadata"].get("namespace") or "", copy["metadata"]["name"]): copy
            for copy in _items(client, resource)
            if (copy["metadata"].get("labels") or {}).get(DOWNSTREAM_CLUSTER) == label
        }
        finalizer = syncer_finalizer(name)
        for leaf in leaves:
            metadata = leaf["metadata"]
            is_assigned = (metadata.get("labels") or {}).get(CLUSTER_LABEL) == name
            has_finalizer = finalizer in (metadata.get("finalizers") or ())
            what = f"{resource} {metadata.get('namespace')}/{metadata['name']} in {name}"
            if not is_assigned:
                if has_finalizer:
                    yield f"I6: {what} has a finalizer and is not assigned"
                continue
            if metadata.get("deletionTimestamp"):
                yield f"I6: {what} is still being deleted"
                continue
            if not has_finalizer:
                yield f"I6: {what} has no finalizer"
            locator = Locator(workspace, uid, workspace, metadata.get("namespace") or "")
            made = render((group, plural), leaf, locator, label)
            yield from _copy_problems(
                what, leaf, copies.pop((made.target.namespace, made.target.name), None), made.body
            )
        for place, copy in copies.items():
            if not copy["metadata"].get("deletionTimestamp"):
                yield f"I2: {resource} {'/'.join(place)} in {name} is assigned by nothing"

    # --- wholes and their parts

    def _root_problems(self, resource: str) -> Iterator[str]:
        parts: dict[str, list[Object]] = {}
        roots: dict[str, Object] = {}
        for obj in _items(self.workspace, resource):
            notes = obj["metadata"].get("annotations") or {}
            if OWNED_BY in (obj["metadata"].get("labels") or {}):
                parts.setdefault(notes.get(ROOT_UID, ""), []).append(obj)
            else:
                roots[obj["metadata"]["uid"]] = obj
        for uid, leaves in parts.items():
            root = roots.get(uid)
            if root is not None and "replicas" in (root.get("spec") or {}):
                yield from _sum_problems(f"{resource} {root['metadata']['name']}", root, leaves)

    # --- objects of others

    def _foreign_problems(self) -> Iterator[str]:
        now = dict(self._found_foreign())
        for place, content in self._foreign.items():
            if now.get(place) != content:
                yield f"I5: {'/'.join(place)} was changed or deleted"

    def _found_foreign(self) -> Iterator[tuple[tuple[str, str, str], str]]:
        for name, client in self.clusters.items():
            for resource in self.resources:
                for obj in _items(client, resource):
                    metadata = obj["metadata"]
                    if DOWNSTREAM_CLUSTER in (metadata.get("labels") or {}):
                        continue
                    place = f"{metadata.get('namespace') or ''}/{metadata['name']}"
                    yield (name, resource, place), _digest(obj)


def _copy_problems(what: str, leaf: Object, copy: Object | None, body: bytes) -> Iterator[str]:
    if copy is None:
        yield f"I1: {what} does not exist there"
        return
    notes = copy["metadata"].get("annotations") or {}
    if notes.get(ORIGIN_UID) != leaf["metadata"]["uid"]:
        yield f"I1: {what} is a copy of another object"
    if not covers(copy, json.loads(body)):
        yield f"I1: {what} has other content"
    status = reported_status(copy)
    if status is not None and leaf.get("status") != status:
        yield f"I3: {what} has the status {leaf.get('status')}, not {status}"


def _sum_problems(what: str, root: Object, leaves: Iterable[Object]) -> Iterator[str]:
    parts = [leaf for leaf in leaves if not leaf["metadata"].get("deletionTimestamp")]
    total = sum((part.get("spec") or {}).get("replicas") or 0 for part in parts)
    if total != root["spec"]["replicas"]:
        yield f"I4: {what} has {total} replicas in its parts, not {root['spec']['replicas']}"
    ready = sum((part.get("status") or {}).get("readyReplicas") or 0 for part in parts)
    if ready != ((root.get("status") or {}).get("readyReplicas") or 0):
        yield f"I3: {what} does not have the {ready} ready replicas of its parts"


def delete_problems(requests: Iterable[SeenRequest], *, proven: Iterable[str] = ()) -> list[str]:
    """I7: deletes that a proxy saw without a precondition on the UID, of objects for which there is
    no proof, or of namespaces with something in them. `proven`: names of objects that may be deleted.
    """
    allowed, found = set(proven), list[str]()
    content: dict[str, set[str]] = {}
    """By namespace: what was written there and not deleted."""
    for request in requests:
        if not request.is_write or not 200 <= request.status < 300:
            continue
        place, thing = _place_of(request.path)
        if request.method != "DELETE":
            if place and thing:
                content.setdefault(place, set()).add(thing)
            continue
        options = json.loads(request.body) if request.body else {}
        if not (options.get("preconditions") or {}).get("uid"):
            found.append(f"I7: {request.path} was deleted without a UID")
        if place and not thing:
            left = sorted(content.pop(place, ()))
            if left:
                found.append(f"I7: {request.path} was deleted with {', '.join(left)}")
            continue
        content.get(place, set()).discard(thing)
        if request.path.rpartition("/")[2] not in allowed:
            found.append(f"I7: {request.path} was deleted without proof")
    return found


def _place_of(path: str) -> tuple[str, str]:
    """The namespace of a request, and what in it as `resource/name`; "" for what it does not name."""
    _, is_within, rest = path.partition("/namespaces/")
    if not is_within:
        return "", path
    place, _, below = rest.partition("/")
    return place, "/".join(below.split("/")[:2])


def _items(client: TestClient, resource: str) -> list[Object]:
    plural, _, group = resource.partition(".")
    path = f"/apis/{group}/v1/{plural}" if group else f"/api/v1/{plural}"
    reply = client.get(path)
    assert reply.status == 200, reply
    head = {"apiVersion": f"{group}/v1" if group else "v1", "kind": reply.json["kind"][:-4]}
    return [{**head, **item} for item in reply.json["items"]]


def _digest(obj: Object) -> str:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _VOLATILE}
    kept = {**{k: v for k, v in obj.items() if k != "status"}, "metadata": metadata}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
