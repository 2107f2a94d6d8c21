"""The CRD by which a workspace serves a negotiated type. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.apis.kube.workloads import workload_names, workload_schema
from pykcp.machinery import meta
from pykcp.machinery.discovery import version_priority
from pykcp.machinery.negotiation.resource import crd_of
from pykcp.machinery.schema.crd import KUBERNETES_KIND
from pykcp.multicluster.importing.objects import CORE, resource_of
from pykcp.types import Object

NEGOTIATED_LABEL = "apiresource.kcp.dev/negotiated"
"""On CRDs that were made here; those without it were made by hand, and are not changed."""
_BLOCKING = {"NonStructuralSchema", "Terminating"}


def crd_name(plural: str, group: str) -> str:
    return f"{plural}.{group or CORE}"


def is_negotiated(crd: Object) -> bool:
    return meta.labels(crd).get(NEGOTIATED_LABEL) == "true"


def definition(negotiated: Sequence[Object]) -> Object:
    """The CRD of all versions of a type; the newest of them is stored. At least one is needed."""
    ordered = sorted(negotiated, key=lambda one: _priority(one["spec"]), reverse=True)
    versions = []
    made: Object = {}
    for number, one in enumerate(ordered):
        spec = one["spec"]
        crd = crd_of(resource_of(spec), spec["openAPIV3Schema"])
        made = made or crd
        version = crd["spec"]["versions"][0]
        version["storage"] = number == 0
        known = workload_schema(crd["metadata"]["name"], version["name"])
        if known is not None:
            served = version["schema"]["openAPIV3Schema"]
            version["schema"] = {"openAPIV3Schema": _with_defaults(served, known)}
        columns = [_column(column) for column in spec.get("columnDefinitions") or ()]
        if columns:
            version["additionalPrinterColumns"] = columns
        versions.append(version)
    made["metadata"]["labels"] = {NEGOTIATED_LABEL: "true"}
    if made["metadata"]["name"] in workload_names():  # with the columns and defaults of Kubernetes
        made["metadata"].setdefault("annotations", {})[KUBERNETES_KIND] = "true"
    made["spec"]["versions"] = versions
    return made


def _with_defaults(schema: Object, known: Object) -> Object:
    """A schema with the defaults of Kubernetes' own one: OpenAPI documents of clusters lack most
    of them, and what they stand for is required by Kubernetes' checks.
    """
    made = dict(schema)
    if "default" in known and made.get("default") is None:
        made["default"] = known["default"]
    for part in ("items", "additionalProperties"):
        if isinstance(made.get(part), dict) and isinstance(known.get(part), dict):
            made[part] = _with_defaults(made[part], known[part])
    if made.get("properties") and known.get("properties"):
        ours = known["properties"]
        made["properties"] = {
            name: _with_defaults(one, ours[name]) if name in ours else one
            for name, one in made["properties"].items()
        }
    return made


def _priority(spec: Object) -> tuple[int, int, int, str]:
    return version_priority(spec["groupVersion"]["version"])


def _column(column: Object) -> Object:
    return {name: value for name, value in column.items() if value not in ("", None)}


def updated(live: Object, wanted: Object) -> Object | None:
    """The CRD with the wanted versions; None if it has them already. Names are not changed."""
    spec = {**live["spec"], "versions": wanted["spec"]["versions"]}
    return None if spec["versions"] == live["spec"]["versions"] else {**live, "spec": spec}


def is_served(crd: Object, version: str) -> bool:
    """Whether the workspace serves a version of the CRD."""
    conditions = {
        one.get("type"): one.get("status")
        for one in (crd.get("status") or {}).get("conditions") or ()
    }
    versions = {one["name"] for one in crd["spec"].get("versions") or () if one.get("served")}
    return (
        version in versions
        and conditions.get("Established") == "True"
        and conditions.get("NamesAccepted") == "True"
        and not any(conditions.get(name) == "True" for name in _BLOCKING)
    )


def spec_of_crd(crd: Object, version: str, base: Object) -> Object | None:
    """The type as a CRD made by hand has it; None if it lacks the version."""
    found = next((one for one in crd["spec"].get("versions") or () if one["name"] == version), None)
    if found is None:
        return None
    names = crd["spec"]["names"]
    spec = {
        **base,
        "scope": crd["spec"]["scope"],
        "plural": names["plural"],
        "kind": names["kind"],
        "openAPIV3Schema": (found.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"},
    }
    spec.pop("subResources", None)
    subresources = [{"name": name} for name in sorted(found.get("subresources") or {})]
    if subresources:
        spec["subResources"] = subresources
    return spec
