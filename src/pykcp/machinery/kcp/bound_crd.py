"""The CustomResourceDefinition that an APIResourceSchema becomes when it is bound.

It is kept in the logical cluster `system:bound-crds` under the schema's UID, and never changed:
another schema has another UID.
"""

from __future__ import annotations

from pykcp.machinery import meta
from pykcp.machinery.schema.crd import KUBERNETES_KIND
from pykcp.types import Object

CLUSTER = "system:bound-crds"
BOUND = "apis.kcp.io/bound-crd"
SCHEMA_CLUSTER = "apis.kcp.io/schema-cluster"
SCHEMA_NAME = "apis.kcp.io/schema-name"
APPROVAL = "api-approved.kubernetes.io"
VALIDATE_NAME = "internal.kcp.io/validate-name"


class NoConversion(ValueError):
    """A schema of several versions does not say how to convert between them."""


def bound_crd(schema: Object, cluster: str) -> Object:
    """The definition for a schema of this logical cluster; NoConversion if it cannot be one."""
    spec = schema["spec"]
    versions = spec["versions"]
    if len(versions) > 1 and spec.get("conversion") is None:
        raise NoConversion(
            f"multiple versions specified for {meta.name(schema)} but no conversion strategy"
        )
    made: Object = {
        "group": spec["group"],
        "names": dict(spec["names"]),
        "scope": spec["scope"],
        "versions": [_version(version) for version in versions],
    }
    if len(versions) > 1:
        made["conversion"] = _conversion(spec["conversion"])
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": meta.uid(schema), "annotations": _annotations(schema, cluster)},
        "spec": made,
    }


def _annotations(schema: Object, cluster: str) -> dict[str, str]:
    annotations = {BOUND: "", SCHEMA_CLUSTER: cluster, SCHEMA_NAME: meta.name(schema)}
    for name in (APPROVAL, KUBERNETES_KIND):
        if name in meta.annotations(schema):
            annotations[name] = meta.annotations(schema)[name]
    if schema["spec"].get("nameValidation") == "PathSegmentName":
        annotations[VALIDATE_NAME] = "path-segment"
    return annotations


_COPIED = (
    "name",
    "served",
    "storage",
    "deprecated",
    "deprecationWarning",
    "additionalPrinterColumns",
    "selectableFields",
)


def _version(version: Object) -> Object:
    made = {field: version[field] for field in _COPIED if version.get(field) is not None}
    made.setdefault("served", True)  # as the schema's own default is
    made["subresources"] = version.get("subresources") or {}
    made["schema"] = {"openAPIV3Schema": version.get("schema") or {}}
    return made


def _conversion(conversion: Object) -> Object:
    strategy = conversion["strategy"]
    if strategy != "Webhook":
        return {"strategy": strategy}
    webhook = conversion["webhook"]
    config = webhook["clientConfig"]
    client: Object = {"url": config.get("url") or ""}
    if config.get("caBundle"):
        client["caBundle"] = config["caBundle"]
    return {
        "strategy": strategy,
        "webhook": {
            "conversionReviewVersions": webhook["conversionReviewVersions"],
            "clientConfig": client,
        },
    }
