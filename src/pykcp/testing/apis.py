"""Schemas, exports and bindings for tests."""

from __future__ import annotations

from pykcp.testing.client import TestClient, eventually
from pykcp.types import Object

SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
OLD_EXPORTS = "/apis/apis.kcp.io/v1alpha1/apiexports"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
OLD_BINDINGS = "/apis/apis.kcp.io/v1alpha1/apibindings"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
CACHED = "/apis/cache.kcp.io/v1alpha1/clustercachedresources"
COWBOYS = "/apis/wild.west/v1/namespaces/default/cowboys"
MAPS = "/api/v1/namespaces/default/configmaps"

_KINDS = {
    "apiresourceschemas": "APIResourceSchema",
    "apiexports": "APIExport",
    "apibindings": "APIBinding",
    "apiexportendpointslices": "APIExportEndpointSlice",
    "clustercachedresources": "ClusterCachedResource",
}

RESOURCE: Object = {
    "name": "cowboys",
    "group": "wild.west",
    "schema": "v1.cowboys.wild.west",
    "storage": {"crd": {}},
}


def make(
    path: str, name: str, spec: Object | None = None, annotations: dict[str, str] | None = None
) -> Object:
    """An object of the kind that is served at a path."""
    _, _, group, version, plural = path.split("/")
    metadata: Object = {"name": name}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": f"{group}/{version}",
        "kind": _KINDS[plural],
        "metadata": metadata,
        "spec": spec or {},
    }


def schema(name: str = "v1.cowboys.wild.west", **spec: object) -> Object:
    names = {
        "plural": "cowboys",
        "singular": "cowboy",
        "kind": "Cowboy",
        "listKind": "CowboyList",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"type": "object", "properties": {"spec": {"type": "object"}}},
    }
    given = {"group": "wild.west", "names": names, "scope": "Namespaced", "versions": [version]}
    return make(SCHEMAS, name, {**given, **spec})


def export(name: str, **spec: object) -> Object:
    return make(EXPORTS, name, spec)


def old_export(name: str, **spec: object) -> Object:
    return make(OLD_EXPORTS, name, spec)


def binding(name: str, export_name: str, path: str = "", claims: object = None) -> Object:
    reference = {"name": export_name, **({"path": path} if path else {})}
    spec: Object = {"reference": {"export": reference}}
    if claims is not None:
        spec["permissionClaims"] = claims
    return make(BINDINGS, name, spec)


def accepted(resource: str, group: str = "", **more: object) -> Object:
    """A claim, as a binding accepts it."""
    out: Object = {"group": group, "resource": resource, "verbs": ["*"], "state": "Accepted"}
    return {**out, "selector": {"matchAll": True}, **more}


def role(name: str, group: str, resource: str, *verbs: str) -> Object:
    rule = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    return {"metadata": {"name": name}, "rules": [rule]}


def grant(role_name: str, user: str) -> Object:
    """A cluster role for a user."""
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": f"{role_name}-{user}".replace(":", "-")},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role_name},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user}],
    }


def bind_cowboys(provider: TestClient, consumer: TestClient, **spec: object) -> None:
    """Export cowboys from one logical cluster, as `spec` says besides, and bind them in another."""
    assert provider.post(SCHEMAS, schema()).status == 201
    made = provider.post(EXPORTS, export("cowboys", resources=[RESOURCE], **spec))
    assert made.status == 201, made
    place = provider.prefix.rpartition("/")[2]
    made = consumer.post(BINDINGS, binding("cowboys", "cowboys", place))
    assert made.status == 201, made

    def is_bound() -> bool:
        status = consumer.get(f"{BINDINGS}/cowboys").json.get("status") or {}
        return bool(status.get("phase") == "Bound")

    eventually(is_bound)


def cowboy(name: str) -> Object:
    return {"apiVersion": "wild.west/v1", "kind": "Cowboy", "metadata": {"name": name}}
