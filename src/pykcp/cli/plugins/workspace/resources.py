"""Access to kcp's own kinds on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykcp.machinery.kcp import clusters

if TYPE_CHECKING:
    # HTTP and TLS are slow to import; `kubectl ws .` in a prompt needs neither
    from pykcp.cli.plugins.access.rest import RestClient

Object = dict[str, Any]


class Collection:
    """All objects of one kind in one workspace."""

    def __init__(
        self, client: RestClient, cluster: str, group: str, version: str, plural: str
    ) -> None:
        """`plural` of kinds with a namespace begins with it: `namespaces/default/secrets`."""
        self._client = client
        api = f"apis/{group}/{version}" if group else f"api/{version}"
        self._path = f"/clusters/{cluster}/{api}/{plural}"
        self._about = f"{plural}.{group}" if group else plural

    def list(self, query: str = "") -> list[Object]:
        answer: Object = self._client.get(self._path + query, about=self._about)
        items: list[Object] = answer.get("items") or []
        return items

    def get(self, name: str) -> Object:
        found: Object = self._client.get(f"{self._path}/{name}", about=f"{self._about} {name}")
        return found

    def create(self, body: Object) -> Object:
        made: Object = self._client.request("POST", self._path, body, about=self._about)
        return made

    def replace(self, body: Object) -> Object:
        name = body["metadata"]["name"]
        about = f"{self._about} {name}"
        changed: Object = self._client.request("PUT", f"{self._path}/{name}", body, about=about)
        return changed

    def delete(self, name: str) -> None:
        self._client.request("DELETE", f"{self._path}/{name}", about=f"{self._about} {name}")


def workspaces(client: RestClient, cluster: str) -> Collection:
    return Collection(client, cluster, "tenancy.kcp.io", "v1alpha1", "workspaces")


def logical_clusters(client: RestClient, cluster: str) -> Collection:
    return Collection(client, cluster, "core.kcp.io", "v1alpha1", "logicalclusters")


def apis(client: RestClient, cluster: str, plural: str, version: str = "v1alpha2") -> Collection:
    return Collection(client, cluster, "apis.kcp.io", version, plural)


def type_name(workspace: Object) -> str:
    """The type of a workspace, such as `root:organization`."""
    reference = (workspace.get("spec") or {}).get("type") or {}
    return clusters.join(reference.get("path") or "", reference.get("name") or "")


def phase(workspace: Object) -> str:
    return str((workspace.get("status") or {}).get("phase") or "")


def unmet(obj: Object) -> str:
    """The conditions that are not met, in parentheses, for messages; "" if all are."""
    found = [
        f"{condition.get('type')}: {condition.get('message') or condition.get('reason') or 'False'}"
        for condition in (obj.get("status") or {}).get("conditions") or []
        if condition.get("status") == "False" and condition.get("type") != "Ready"
    ]
    return f" ({'; '.join(found)})" if found else ""


def url(workspace: Object) -> str:
    return str((workspace.get("spec") or {}).get("URL") or "")


def is_mount(workspace: Object) -> bool:
    return (workspace.get("spec") or {}).get("mount") is not None


def is_terminating(workspace: Object) -> bool:
    return workspace["metadata"].get("deletionTimestamp") is not None
