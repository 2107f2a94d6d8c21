"""ClusterRoleBindings for the users of Kubeconfigs.

Bindings name the group `kubeconfig:<name>`, which only certificates of that Kubeconfig have, so
that equal user names do not share rights. Where they are made is recorded before they are made,
so that they can be found again when the target of the Kubeconfig is gone.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pykcp.clients.interface import Client
from pykcp.machinery.resources import WORKSPACES, GroupVersionResource
from pykcp.machinery.status import Forbidden, NotFound
from pykcp.programs.operator.configuration.kubeconfigs import target_reference
from pykcp.programs.operator.configuration.world import at, name_of
from pykcp.programs.operator.names import OWNER_LABELS, RBAC_CLEANUP
from pykcp.types import Object

BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
_LABEL = OWNER_LABELS["Kubeconfig"]


class RbacAction(Enum):
    DONE = "done"
    HOLD = "hold"
    """Add the finalizer."""
    RECORD = "record"
    """Write `status.authorization.provisionedCluster`."""
    BIND = "bind"
    REMOVE = "remove"
    """Delete the bindings of a workspace and clear the record."""
    RELEASE = "release"
    """Remove the finalizer."""


class BindingPlace(NamedTuple):
    """Where bindings are."""

    cluster: str
    """The workspace."""
    root: str = ""
    """The RootShard of the installation; "" if it is not known."""
    target: str = ""
    """What the Kubeconfig was for, `FrontProxy/frontproxy`; "" if it is not known."""

    def is_the_same_as(self, other: BindingPlace | None) -> bool:
        """What is not known counts as equal."""
        return (
            other is not None
            and self.cluster == other.cluster
            and ("" in (self.root, other.root) or self.root == other.root)
            and ("" in (self.target, other.target) or self.target == other.target)
        )


class RbacStep(NamedTuple):
    action: RbacAction
    place: BindingPlace = BindingPlace("")


def next_step(obj: Object, root: str = "") -> RbacStep:
    """What to do next for a Kubeconfig; call it again after each step but `BIND` and `DONE`.

    `root`: the RootShard of its target; "" if the target does not exist.
    """
    wanted, done = wanted_place(obj, root), provisioned_place(obj)
    is_held = RBAC_CLEANUP in (obj["metadata"].get("finalizers") or ())
    if done is not None and not done.is_the_same_as(wanted):
        return RbacStep(RbacAction.REMOVE, done)
    if wanted is None:
        return RbacStep(RbacAction.RELEASE if is_held else RbacAction.DONE)
    if not root:
        return RbacStep(RbacAction.DONE)
    if not is_held:
        return RbacStep(RbacAction.HOLD)
    return RbacStep(RbacAction.BIND if done == wanted else RbacAction.RECORD, wanted)


def wanted_place(obj: Object, root: str) -> BindingPlace | None:
    """Where the user is to be given roles; None if none are wanted."""
    bindings = at(obj, "authorization.clusterRoleBindings")
    if not bindings or not bindings.get("clusterRoles") or obj["metadata"].get("deletionTimestamp"):
        return None
    cluster = str(bindings.get("cluster") or at(obj, "targetWorkspace", "root"))
    kind, name = target_reference(obj)
    return BindingPlace(cluster, root, f"{kind}/{name}")


def provisioned_place(obj: Object) -> BindingPlace | None:
    """Where bindings may be, as it was recorded."""
    found = (obj.get("status") or {}).get("authorization") or {}
    cluster = found.get("provisionedCluster")
    if not cluster:
        return None
    return BindingPlace(cluster, found.get("rootShard") or "", found.get("target") or "")


def recorded(place: BindingPlace | None) -> Object:
    """`status.authorization`."""
    if place is None:
        return {"provisionedCluster": ""}
    return {"provisionedCluster": place.cluster, "rootShard": place.root, "target": place.target}


async def is_gone(client: Client, cluster: str) -> bool:
    """Whether a workspace was deleted, with all that was in it; `root` never is."""
    parent, colon, name = cluster.rpartition(":")
    if not colon:
        return False
    try:
        return await client.get(parent, WORKSPACES, name) is None
    except (NotFound, Forbidden):  # how proxies answer for workspaces that they do not know
        return await is_gone(client, parent)


async def bind(client: Client, obj: Object, cluster: str) -> None:
    """One binding for each role; those of other roles are deleted."""
    wanted = {_binding_name(obj, role): role for role in _roles(obj)}
    for live in await client.list(cluster, BINDINGS, labels=_selector(obj)):
        name = live["metadata"]["name"]
        if wanted.get(name) != live["roleRef"]["name"]:  # a role cannot be changed
            await client.delete(cluster, BINDINGS, name)
    for name, role in wanted.items():
        await client.apply(cluster, BINDINGS, _binding(obj, name, role), force=True)


async def unbind(client: Client, obj: Object, cluster: str) -> None:
    for live in await client.list(cluster, BINDINGS, labels=_selector(obj)):
        await client.delete(cluster, BINDINGS, live["metadata"]["name"])


def _roles(obj: Object) -> list[str]:
    return list(dict.fromkeys(at(obj, "authorization.clusterRoleBindings.clusterRoles", [])))


def _selector(obj: Object) -> str:
    return f"{_LABEL}={obj['metadata']['uid']}"


def _binding_name(obj: Object, role: str) -> str:
    return f"{obj['metadata']['uid']}:{role}"


def _binding(obj: Object, name: str, role: str) -> Object:
    api = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {_LABEL: obj["metadata"]["uid"]}},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": api, "kind": "Group", "name": f"kubeconfig:{name_of(obj)}"}],
    }
