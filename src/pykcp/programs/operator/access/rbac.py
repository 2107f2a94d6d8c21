"""ClusterRoleBindings for the users of Kubeconfigs.

Bindings name the group `kubeconfig:<name>`, which only certificates of that Kubeconfig have, so
that equal user names do not share rights. Where they are made is recorded before they are made,
so that they can be found again.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pykcp.clients.interface import Client
from pykcp.machinery.resources import GroupVersionResource
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


class RbacStep(NamedTuple):
    action: RbacAction
    cluster: str = ""


def next_step(obj: Object) -> RbacStep:
    """What to do next for a Kubeconfig; call it again after each step but `BIND` and `DONE`."""
    wanted, done = wanted_cluster(obj), provisioned_cluster(obj)
    is_held = RBAC_CLEANUP in (obj["metadata"].get("finalizers") or ())
    if done and done != wanted:
        return RbacStep(RbacAction.REMOVE, done)
    if not wanted:
        return RbacStep(RbacAction.RELEASE if is_held else RbacAction.DONE)
    if not is_held:
        return RbacStep(RbacAction.HOLD)
    return RbacStep(RbacAction.BIND if done else RbacAction.RECORD, wanted)


def wanted_cluster(obj: Object) -> str:
    """The workspace in which the user is given roles; "" if none are wanted."""
    bindings = at(obj, "authorization.clusterRoleBindings")
    if not bindings or not bindings.get("clusterRoles") or obj["metadata"].get("deletionTimestamp"):
        return ""
    return str(bindings.get("cluster") or at(obj, "targetWorkspace", "root"))


def provisioned_cluster(obj: Object) -> str:
    status = obj.get("status") or {}
    return str((status.get("authorization") or {}).get("provisionedCluster") or "")


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
