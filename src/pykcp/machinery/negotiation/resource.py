"""Definitions of a resource: pulled from a cluster, and common to several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykcp.machinery.negotiation.findings import Findings
from pykcp.machinery.negotiation.meet import ROOT, Met, meet
from pykcp.machinery.negotiation.openapi import Unconvertible, kinds_of_models, structural_schema
from pykcp.machinery.negotiation.settling import settled
from pykcp.machinery.resources import GroupVersionResource
from pykcp.types import Object

_APPROVED = "api-approved.kubernetes.io"
_UNAPPROVED = "unapproved, imported from a cluster"
_SCALE_PATHS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class ImportedResource(NamedTuple):
    """A resource as a cluster's discovery describes it."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    is_namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """`deployments.apps`, `pods.core`: the name of its CRD."""
        return f"{self.plural}.{self.group or 'core'}"

    @property
    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(self.group, self.version, self.plural)


def listed_resources(group: str, version: str, document: Object) -> list[ImportedResource]:
    """The resources of an APIResourceList that can be listed and watched."""
    found = document.get("resources") or ()
    subresources: dict[str, set[str]] = {}
    for entry in found:
        plural, slash, subresource = entry["name"].partition("/")
        if slash:
            subresources.setdefault(plural, set()).add(subresource)
    return [
        ImportedResource(
            group,
            version,
            entry["name"],
            entry.get("singularName") or "",
            entry["kind"],
            bool(entry.get("namespaced")),
            tuple(entry.get("shortNames") or ()),
            tuple(entry.get("categories") or ()),
            frozenset(subresources.get(entry["name"], ())),
        )
        for entry in found
        if "/" not in entry["name"] and {"list", "watch"} <= set(entry.get("verbs") or ())
    ]


def imported_schema(
    resource: ImportedResource, crd: Object | None, models: Mapping[str, Object]
) -> Object:
    """The schema of a resource: its CRD's where there is one, else that of OpenAPI.

    Raises Unconvertible.
    """
    if crd is not None:
        return _schema_of_crd(crd, resource.version)
    wanted = (resource.group, resource.version, resource.kind)
    name = next((name for kind, name in kinds_of_models(models) if kind == wanted), "")
    if not name:
        raise Unconvertible(f"OpenAPI does not describe {resource.kind} of {resource.version}")
    return structural_schema(models, name)


def columns_of(crd: Object | None, version: str) -> list[Object]:
    """The columns that a CRD defines for kubectl."""
    found: list[Object] = _version_of(crd, version).get("additionalPrinterColumns") or []
    return found


def served_subresources(resource: ImportedResource, crd: Object | None) -> frozenset[str]:
    """Those that a definition made of the resource can serve, too: without `scale` if the CRD has
    the replicas elsewhere than `crd_of` writes.
    """
    if crd is None:
        return resource.subresources
    scale = (_version_of(crd, resource.version).get("subresources") or {}).get("scale") or {}
    is_usual = all(scale.get(name) == path for name, path in _SCALE_PATHS.items())
    return resource.subresources if is_usual else resource.subresources - {"scale"}


def _version_of(crd: Object | None, version: str) -> Object:
    versions = ((crd or {}).get("spec") or {}).get("versions") or ()
    return next((one for one in versions if one["name"] == version), {})


def _schema_of_crd(crd: Object, version: str) -> Object:
    """The schema of one version; anything if the CRD has none that is structural."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    if any(c["type"] == "NonStructuralSchema" and c["status"] == "True" for c in conditions):
        return _ANY
    for each in crd["spec"].get("versions") or ():
        if each["name"] == version:
            found: Object = (each.get("schema") or {}).get("openAPIV3Schema") or _ANY
            return found
    return _ANY


def crd_of(resource: ImportedResource, schema: Object) -> Object:
    """A CRD that serves the resource as the cluster does."""
    names: Object = {
        "plural": resource.plural,
        "singular": resource.singular or resource.kind.lower(),
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    version: Object = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    subresources: Object = {}
    if "status" in resource.subresources:
        subresources["status"] = {}
    if "scale" in resource.subresources:
        subresources["scale"] = dict(_SCALE_PATHS)
    if subresources:
        version["subresources"] = subresources
    metadata: Object = {"name": resource.name}
    if is_protected(resource.group):
        metadata["annotations"] = {_APPROVED: _UNAPPROVED}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "versions": [version],
        },
    }


def is_protected(group: str) -> bool:
    """Whether CRDs of a group need the annotation of an approval."""
    return any(group == word or group.endswith(f".{word}") for word in ("k8s.io", "kubernetes.io"))


def meet_crds(existing: Object, new: Object) -> Met:
    """The common definition of two CRDs: names and scope must agree, versions that both serve stay."""
    at = Findings("spec")
    mine, other = existing["spec"], new["spec"]
    _check_same(mine, other, at)
    versions = [
        _meet_version(version, found, at)
        for version in mine.get("versions") or ()
        for found in other.get("versions") or ()
        if found["name"] == version["name"]
    ]
    if not versions:
        at.at("versions").conflict("no version is in both")
    if versions and not any(version.get("storage") for version in versions):
        versions[0]["storage"] = True
    return Met({**existing, "spec": {**mine, "versions": versions}}, at.found)


def _check_same(mine: Object, other: Object, at: Findings) -> None:
    for path in ("group", "scope", "names.kind", "names.plural"):
        one, two = mine, other
        *parents, last = path.split(".")
        for name in parents:
            one, two = one.get(name) or {}, two.get(name) or {}
        if one.get(last) != two.get(last):
            at.at(path).conflict(
                f'{last} has been changed (was "{one.get(last)}", now "{two.get(last)}")'
            )


def _meet_version(mine: Object, other: Object, at: Findings) -> Object:
    place = f"{mine['name']}.{ROOT}"
    met = meet(_schema(mine), _schema(other), place)
    at.found += met.findings
    schema = settled(met.schema, Findings(place, at.found)) if met.is_possible else met.schema
    out = {**mine, "schema": {"openAPIV3Schema": schema}}
    subresources = {
        name: value
        for name, value in (mine.get("subresources") or {}).items()
        if name in (other.get("subresources") or {})
    }
    for name in (mine.get("subresources") or {}).keys() - subresources.keys():
        below = Findings(f"{mine['name']}.subresources.{name}", at.found)
        below.narrowed("the subresource has been removed")
    out.pop("subresources", None)
    if subresources:
        out["subresources"] = subresources
    return out


def _schema(version: Object) -> Object:
    found: Object = (version.get("schema") or {}).get("openAPIV3Schema") or _ANY
    return found
