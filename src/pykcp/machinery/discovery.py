"""Discovery documents: what a set of definitions looks like to clients. Pure.

Two generations are served: the old tree (`/api`, `/apis`, one list per group
version), and the aggregated form (v2) that recent clients read at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.machinery.schema.definition import ResourceDefinition, Subresource
from pykcp.types import Object


def api_versions(address: str) -> Object:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": _addresses(address),
    }


def _addresses(address: str) -> list[Object]:
    return [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]


_KUBERNETES = (
    "apps", "autoscaling", "batch", "networking.k8s.io", "policy", "storage.k8s.io",
    "scheduling.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)  # fmt: skip
"""Kubernetes' groups that definitions may provide here, in Kubernetes' order."""
_RANKS = {group: rank for rank, group in enumerate(_KUBERNETES)}


def group_names(definitions: Sequence[ResourceDefinition]) -> list[str]:
    """Groups by priority, without the core group.

    Clients take the first group that has a short name or kind they look for, so a group must not
    win because of the names of its resources: the server's own groups come first, then
    Kubernetes', then kcp's, then all others; by name where nothing else decides.
    """
    served = [d for d in definitions if d.group and d.versions]
    native = dict.fromkeys(d.group for d in served if d.native)
    others = {d.group for d in served}.difference(native)
    return [*native, *sorted(others, key=_group_priority)]


def _group_priority(group: str) -> tuple[int, str]:
    others = len(_RANKS) + (not group.endswith(".kcp.io"))
    return _RANKS.get(group, others), group


def versions_of(definitions: Sequence[ResourceDefinition], group: str) -> list[str]:
    """The group's versions, preferred first."""
    found = {v for d in definitions if d.group == group for v in d.versions}
    return sorted(found, key=version_priority)


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order: v10, v2, v1, v11beta2, v1beta1, v1alpha1, then the rest by name."""
    rest = version.removeprefix("v")
    for rank, stage in ((1, "beta"), (2, "alpha")):
        major, found, minor = rest.partition(stage)
        if found and major.isdigit() and (minor.isdigit() or not minor):
            return rank, -int(major), -int(minor or 0), version
    if rest.isdigit() and rest != version:
        return 0, -int(rest), 0, version
    return 3, 0, 0, version


def api_group(definitions: Sequence[ResourceDefinition], group: str) -> Object:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(definitions, group, "")}


def api_group_list(definitions: Sequence[ResourceDefinition], address: str = "") -> Object:
    """All groups; built-in ones say where they are served, if an address is given."""
    groups = [_group(definitions, name, address) for name in group_names(definitions)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(definitions: Sequence[ResourceDefinition], group: str, address: str) -> Object:
    versions = [
        {"groupVersion": f"{group}/{v}", "version": v} for v in versions_of(definitions, group)
    ]
    out: Object = {"name": group, "versions": versions, "preferredVersion": versions[0]}
    if address and any(d.native for d in definitions if d.group == group):
        out["serverAddressByClientCIDRs"] = _addresses(address)
    return out


def api_resource_list(
    definitions: Sequence[ResourceDefinition], group: str, version: str, *, is_plain: bool = False
) -> Object:
    """`is_plain`: as kube-apiserver shows it, not kcp."""
    resources: list[Object] = []
    for definition in definitions:
        if definition.group == group and version in definition.versions:
            resources.append(_resource(definition, is_plain=is_plain))
            resources += [_subresource(definition, s) for s in definition.subresources_of(version)]
    out: Object = {"kind": "APIResourceList"}
    if group:
        out["apiVersion"] = "v1"
    out["groupVersion"] = f"{group}/{version}" if group else version
    out["resources"] = resources
    return out


def _resource(definition: ResourceDefinition, *, is_plain: bool) -> Object:
    out: Object = {
        "name": definition.plural,
        "singularName": definition.singular,
        "namespaced": definition.namespaced,
        "kind": definition.kind,
        "verbs": list(definition.verbs),
    }
    if definition.short_names:
        out["shortNames"] = list(definition.short_names)
    if definition.categories:
        out["categories"] = list(definition.categories)
    if is_plain:
        found = definition.kubernetes_storage_version_hash
    else:
        found = definition.storage_version_hash
    if found:
        out["storageVersionHash"] = found
    return out


def _subresource(definition: ResourceDefinition, subresource: Subresource) -> Object:
    out: Object = {
        "name": f"{definition.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": definition.namespaced,
    }
    if subresource.group:
        out["group"] = subresource.group
    if subresource.version:
        out["version"] = subresource.version
    out["kind"] = subresource.kind
    out["verbs"] = list(subresource.verbs) or None
    return out


def aggregated(definitions: Sequence[ResourceDefinition]) -> Object:
    """The aggregated form, in v2."""
    core = [""] if any(not d.group and d.versions for d in definitions) else []
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            _aggregated_group(definitions, group) for group in core + group_names(definitions)
        ],
    }


def _aggregated_group(definitions: Sequence[ResourceDefinition], group: str) -> Object:
    metadata: Object = {"name": group} if group else {}
    versions = [
        {
            "version": version,
            "resources": [
                _aggregated_resource(d, version)
                for d in definitions
                if d.group == group and version in d.versions
            ],
            "freshness": "Current",
        }
        for version in versions_of(definitions, group)
    ]
    return {"metadata": metadata, "versions": versions}


def _aggregated_resource(definition: ResourceDefinition, version: str) -> Object:
    out: Object = {
        "resource": definition.plural,
        "responseKind": {"group": "", "version": "", "kind": definition.kind},
        "scope": "Namespaced" if definition.namespaced else "Cluster",
        "singularResource": definition.singular,
        "verbs": list(definition.verbs),
    }
    if definition.short_names:
        out["shortNames"] = list(definition.short_names)
    if definition.categories:
        out["categories"] = list(definition.categories)
    subresources = definition.subresources_of(version)
    if subresources:
        out["subresources"] = [
            {
                "subresource": s.name,
                "responseKind": {"group": s.group, "version": s.version, "kind": s.kind},
                "verbs": list(s.verbs),
            }
            for s in subresources
        ]
    return out
