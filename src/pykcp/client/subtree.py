"""All objects of a kind in a workspace and in those below it, followed as one.

pykcp serves all objects that a user may read as one collection (`/services/readable`; behind a
front-proxy, `/services/merged/readable`), so that two watches are enough however many workspaces
there are: one of the kind, one of the workspaces, which say what is below what. Both arrive
independently of each other. Objects of workspaces that are not (yet) known to be below are kept as
well, and are reported as soon as their workspace is known.
"""

from __future__ import annotations

import asyncio

from pykcp.client.informers import ObjectInformer, Place, place_of
from pykcp.client.kinds import WORKSPACE_KIND
from pykcp.client.objects import ObjectEvent, Objects
from pykcp.client.outages import Outage
from pykcp.client.workspaces import Workspace
from pykcp.machinery.status import Forbidden, NotFound
from pykcp.types import Object

_COLLECTIONS = ("/services/merged/readable", "/services/readable")
"""Of all shards behind a front-proxy, which alone has it, and of the server that is asked."""

_WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"


class SubtreeMembers:
    """The logical clusters of a subtree, as workspaces come and go in any order."""

    def __init__(self, root: str) -> None:
        self.inside = {root}
        self._parents: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}

    def put(self, cluster: str, parent: str) -> set[str]:
        """A workspace; returns the logical clusters that are in the subtree from now on."""
        if cluster in self._parents:
            return set()
        self._parents[cluster] = parent
        self._children.setdefault(parent, set()).add(cluster)
        joined = self._below(cluster) - self.inside if parent in self.inside else set()
        self.inside |= joined
        return joined

    def drop(self, cluster: str) -> set[str]:
        """A workspace that is gone; returns what is no longer in the subtree."""
        parent = self._parents.pop(cluster, None)
        if parent is None:
            return set()
        siblings = self._children[parent]
        siblings.discard(cluster)
        if not siblings:
            del self._children[parent]
        left = self._below(cluster) & self.inside if parent in self.inside else set()
        self.inside -= left
        return left

    def _below(self, cluster: str) -> set[str]:
        """It and what is known below it."""
        found: set[str] = set()
        waiting = [cluster]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting += self._children.get(each, ())
        return found


class SubtreeInformer(ObjectInformer):
    """As an informer of one workspace; `cluster` of an object's place says where it is.

    It has the kinds of Kubernetes and kcp, and what the user may list; of workspaces whose children
    the user may not list, not what is below them.
    """

    def __init__(
        self, workspace: Workspace, kind: str, namespace: str = "", *, labels: str = ""
    ) -> None:
        super().__init__(workspace.objects(kind, namespace), labels=labels)
        if not workspace.path or workspace.prefix.startswith("/services/"):
            raise ValueError(f"{workspace!r} has no subtree")
        self._workspace, self._namespace = workspace, namespace
        self._members = SubtreeMembers("")
        self._known: dict[str, dict[Place, Object]] = {}
        """All readable objects, by logical cluster."""

    async def _follow(self, outage: Outage) -> None:
        kind = await self._objects.kind()
        view = await self._find_view()
        objects = ObjectInformer(Objects(view, kind, self._namespace), labels=self._labels)
        workspaces = ObjectInformer(Objects(view, WORKSPACE_KIND))
        self._members = SubtreeMembers(await _cluster_of(self._workspace))
        self._known = {}
        try:
            async with workspaces, objects:
                outage.answered()
                self._begin(workspaces, objects)
                await asyncio.gather(workspaces.ended(), objects.ended())
        except NotFound:
            message = f'"{kind.plural}" has no subtree: only kinds of Kubernetes and kcp have one'
            raise NotFound(message, kind=kind.plural) from None

    async def _find_view(self) -> Workspace:
        """All readable objects of all shards, or of the server. Raises NotFound."""
        at = self._workspace
        for path in _COLLECTIONS:
            view = Workspace(at.transport, "*", prefix=at.prefix + path, reach=at.reach)
            try:
                await at.transport.ask("GET", view.base + _WORKSPACES, query={"limit": 1})
            except (NotFound, Forbidden):
                continue
            return view
        raise NotFound("the server does not serve /services/readable, which subtrees need")

    def _begin(self, workspaces: ObjectInformer, objects: ObjectInformer) -> None:
        """Take over what was read, at one go, and follow from there."""
        for obj in workspaces.list():
            self._members.put(*_tree_place(obj))
        inside = self._members.inside
        self._replace(obj for obj in objects.list() if place_of(obj).cluster in inside)
        self._is_synced.set()
        workspaces.on(self._workspace_changed)
        objects.on(self._object_changed)

    def _object_changed(self, event: ObjectEvent) -> None:
        place = place_of(event.object)
        known = self._known.setdefault(place.cluster, {})
        if event.type != "DELETED":
            known[place] = event.object
        else:
            known.pop(place, None)
            if not known:
                del self._known[place.cluster]
        if place.cluster in self._members.inside:
            self._take(event)

    def _workspace_changed(self, event: ObjectEvent) -> None:
        cluster, parent = _tree_place(event.object)
        if not cluster:
            return  # it has none yet, or it is a mount
        is_gone = event.type == "DELETED"
        moved = self._members.drop(cluster) if is_gone else self._members.put(cluster, parent)
        for each in moved:
            for obj in [*self._known.get(each, {}).values()]:
                self._take(ObjectEvent("DELETED" if is_gone else "ADDED", obj))


def _tree_place(workspace: Object) -> tuple[str, str]:
    """The logical cluster of a workspace, and that of the workspace above it."""
    return (workspace.get("spec") or {}).get("cluster") or "", place_of(workspace).cluster


async def _cluster_of(workspace: Workspace) -> str:
    """By the tree, since who may list the workspaces below need not be allowed anything else."""
    path = f"{workspace.prefix}/services/tree/clusters/{workspace.path}"
    answer = await workspace.transport.ask("GET", path, query={"depth": 1, "limit": 1})
    cluster: str = answer["cluster"]
    return cluster
