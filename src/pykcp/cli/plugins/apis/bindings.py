"""APIBindings in the version that a server prefers."""

from __future__ import annotations

from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError, Prefixed
from pykcp.cli.plugins.workspace.resources import Collection
from pykcp.cli.plugins.workspace.resources import apis as apis_of

Object = dict[str, Any]
ACCEPTED = "Accepted"
REJECTED = "Rejected"
VERSIONS = ("v1alpha1", "v1alpha2")


def preferred_version(client: RestClient, cluster: str) -> str:
    """The preferred version of APIBinding of the server."""
    try:
        version = _preferred(client, f"/clusters/{cluster}/apis/apis.kcp.io")
    except PluginError as error:
        raise Prefixed("service discovery failed", error) from error
    return version


def _preferred(client: RestClient, path: str) -> str:
    try:
        group: Object = client.discover(path)
    except ServerError as error:
        if error.is_not_found:
            raise PluginError("server does not serve apibindings.apis.kcp.io") from None
        raise Prefixed("failed to discover APIs", error) from error
    offered = [entry["version"] for entry in group.get("versions") or []]
    for version in _preferred_first(group, offered):
        resources: Object = client.discover(f"{path}/{version}")
        if any(entry["name"] == "apibindings" for entry in resources.get("resources") or []):
            return version
    raise PluginError("server does not serve apibindings.apis.kcp.io")


def _preferred_first(group: Object, offered: list[str]) -> list[str]:
    preferred = (group.get("preferredVersion") or {}).get("version", "")
    return sorted(offered, key=lambda version: version != preferred)


def collection(client: RestClient, cluster: str) -> tuple[Collection, str]:
    """The bindings of a workspace, and their version."""
    version = preferred_version(client, cluster)
    return apis_of(client, cluster, "apibindings", version), version


def check_version(version: str) -> None:
    if version not in VERSIONS:
        raise PluginError(f'version "{version}" is not supported by this plugin')
