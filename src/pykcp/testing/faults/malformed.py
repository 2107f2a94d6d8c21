"""Whole objects of every kind of kcp's, and what becomes of them when a part is missing or wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from pykcp.types import Object

_SELECTOR: Object = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}],
}
_CONDITION: Object = {
    "type": "Ready",
    "status": "False",
    "severity": "Info",
    "reason": "Because",
    "message": "text",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
_CLAIM: Object = {"group": "", "resource": "configmaps", "verbs": ["*"]}
_OLD_CLAIM: Object = {"group": "", "resource": "secrets", "all": True}
_SCOPED: Object = {**_CLAIM, "selector": {"matchLabels": {"a": "b"}}}
_BOUND: Object = {
    "group": "wild.west",
    "resource": "cowboys",
    "schema": {"name": "v1.cowboys.wild.west", "UID": "u1", "identityHash": "h1"},
    "storageVersions": ["v1"],
}
_REFERENCE: Object = {"export": {"path": "root", "name": "topology.kcp.io"}}
_ENDPOINTS: Object = {
    "conditions": [_CONDITION],
    "endpoints": [{"url": "https://nowhere", "shards": {"selector": _SELECTOR}}],
    "shardSelector": "a=b",
}
_HOOK = "root:some:hook"
_RULES: list[Object] = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]


class KindSample(NamedTuple):
    """One kind in one version."""

    version: str
    plural: str
    kind: str
    spec: Object
    status: Object | None = None
    name: str = "{}"

    @property
    def path(self) -> str:
        return f"/apis/{self.version}/{self.plural}"

    def make(self, number: int, **parts: Any) -> Object:
        """An object with these parts, the number in its name."""
        name = self.name.format(f"m{number}")
        body = {"apiVersion": self.version, "kind": self.kind, "metadata": {"name": name}}
        return {**body, **parts}


def _issuer() -> Object:
    return {
        "issuer": {
            "url": "https://issuer.nowhere",
            "discoveryURL": "https://issuer.nowhere/.well-known/openid-configuration",
            "audiences": ["me"],
            "audienceMatchPolicy": "MatchAny",
            "certificateAuthority": "",
        },
        "claimValidationRules": [{"claim": "hd", "requiredValue": "here"}],
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "x:"},
            "groups": {"expression": "claims.groups"},
            "uid": {"claim": "uid"},
            "extra": [{"key": "a.b/c", "valueExpression": "claims.d"}],
        },
        "userValidationRules": [{"expression": "true", "message": "no"}],
    }


def _schema_spec() -> Object:
    return {
        "group": "wild.west",
        "names": {
            "plural": "cowboys",
            "singular": "cowboy",
            "kind": "Cowboy",
            "listKind": "CowboyList",
            "shortNames": ["cb"],
            "categories": ["all"],
        },
        "scope": "Namespaced",
        "nameValidation": "DNS1123Subdomain",
        "conversion": {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "https://127.0.0.1:1/convert", "caBundle": "Zm9v"},
                "conversionReviewVersions": ["v1"],
            },
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "deprecated": True,
                "deprecationWarning": "old",
                "schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {"n": {"type": "integer"}}}
                    },
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.n",
                        "statusReplicasPath": ".status.n",
                        "labelSelectorPath": ".status.s",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1}
                ],
                "selectableFields": [{"jsonPath": ".spec.n"}],
            }
        ],
    }


def _type_spec() -> Object:
    other = {"name": "universal", "path": "root"}
    return {
        "additionalWorkspaceLabels": {"a": "b"},
        "authenticationConfigurations": [{"name": "mine"}],
        "defaultAPIBindingLifecycle": "Maintain",
        "defaultAPIBindings": [{"path": "root", "export": "topology.kcp.io"}],
        "defaultChildWorkspaceType": other,
        "extend": {"with": [other]},
        "initializer": True,
        "initializerPermissions": _RULES,
        "limitAllowedChildren": {"types": [other]},
        "limitAllowedParents": {"types": [other]},
        "terminator": True,
        "terminatorPermissions": _RULES,
    }


def _cached(name: str) -> Object:
    other = {"name": "nothing", "path": "root"}
    return {name: other, "export": other, "partition": "east"}


_EXPORT_STATUS: Object = {
    "conditions": [_CONDITION],
    "identityHash": "h1",
    "virtualWorkspaces": [{"url": "https://nowhere"}],
}
_IDENTITY: Object = {"secretRef": {"name": "s", "namespace": "default"}}
_APIS, _OLD_APIS, _CACHE = "apis.kcp.io/v1alpha2", "apis.kcp.io/v1alpha1", "cache.kcp.io/v1alpha1"
_TENANCY, _TOPOLOGY = "tenancy.kcp.io/v1alpha1", "topology.kcp.io/v1alpha1"

SAMPLES = (
    KindSample(
        _APIS,
        "apiexports",
        "APIExport",
        {
            "identity": _IDENTITY,
            "maximalPermissionPolicy": {"local": {}},
            "permissionClaims": [{**_CLAIM, "defaultSelector": _SELECTOR, "identityHash": "h"}],
            "resources": [
                {
                    "name": "cowboys",
                    "group": "wild.west",
                    "schema": "v1.cowboys.wild.west",
                    "storage": {"crd": {}},
                },
                {
                    "name": "sheriffs",
                    "group": "wild.west",
                    "schema": "v1.sheriffs.wild.west",
                    "storage": {
                        "virtual": {
                            "identityHash": "h",
                            "reference": {"apiGroup": "a.b", "kind": "C", "name": "d"},
                        }
                    },
                },
            ],
        },
        _EXPORT_STATUS,
    ),
    KindSample(
        _OLD_APIS,
        "apiexports",
        "APIExport",
        {
            "identity": _IDENTITY,
            "latestResourceSchemas": ["v1.cowboys.wild.west"],
            "maximalPermissionPolicy": {"local": {}},
            "permissionClaims": [
                {**_OLD_CLAIM, "identityHash": "h"},
                {
                    "group": "",
                    "resource": "configmaps",
                    "resourceSelector": [{"name": "a", "namespace": "b"}],
                },
            ],
        },
        _EXPORT_STATUS,
    ),
    KindSample(
        _APIS,
        "apibindings",
        "APIBinding",
        {
            "reference": _REFERENCE,
            "permissionClaims": [{**_SCOPED, "identityHash": "h", "state": "Accepted"}],
        },
        {
            "apiExportClusterName": "nowhere",
            "appliedPermissionClaims": [_SCOPED],
            "exportPermissionClaims": [_CLAIM],
            "boundResources": [_BOUND],
            "conditions": [_CONDITION],
            "phase": "Bound",
        },
    ),
    KindSample(
        _OLD_APIS,
        "apibindings",
        "APIBinding",
        {
            "reference": _REFERENCE,
            "permissionClaims": [{**_OLD_CLAIM, "identityHash": "h", "state": "Accepted"}],
        },
        {
            "apiExportClusterName": "nowhere",
            "appliedPermissionClaims": [_OLD_CLAIM],
            "exportPermissionClaims": [_OLD_CLAIM],
            "boundResources": [_BOUND],
            "conditions": [_CONDITION],
            "phase": "Binding",
        },
    ),
    KindSample(
        _OLD_APIS,
        "apiexportendpointslices",
        "APIExportEndpointSlice",
        {**_REFERENCE, "partition": "east"},
        _ENDPOINTS,
    ),
    KindSample(
        _OLD_APIS,
        "apiresourceschemas",
        "APIResourceSchema",
        _schema_spec(),
        name="{}.cowboys.wild.west",
    ),
    KindSample(
        _OLD_APIS,
        "apiconversions",
        "APIConversion",
        {
            "conversions": [
                {
                    "from": "v1",
                    "to": "v2",
                    "preserve": [".spec.a"],
                    "rules": [{"field": ".a", "destination": ".b", "transformation": "self"}],
                }
            ]
        },
        name="{}.cowboys.wild.west",
    ),
    KindSample(
        _CACHE,
        "clustercachedresources",
        "ClusterCachedResource",
        {
            "group": "wild.west",
            "version": "v1",
            "resource": "cowboys",
            "identity": _IDENTITY,
            "labelSelector": _SELECTOR,
        },
        {
            "conditions": [_CONDITION],
            "identityHash": "h",
            "phase": "Ready",
            "resourceCounts": {"cache": 1, "local": 2},
        },
    ),
    KindSample(
        _CACHE,
        "clustercachedresourceendpointslices",
        "ClusterCachedResourceEndpointSlice",
        _cached("clusterCachedResource"),
        _ENDPOINTS,
    ),
    KindSample(_CACHE, "cachedobjects", "CachedObject", {"raw": {"a": 1}}),
    KindSample(
        _TENANCY,
        "workspaces",
        "Workspace",
        {
            "type": {"name": "universal", "path": "root"},
            "location": {"selector": _SELECTOR},
            "mount": {
                "ref": {"apiVersion": "a.b/v1", "kind": "C", "name": "d", "namespace": "default"}
            },
        },
        {"conditions": [_CONDITION], "initializers": [_HOOK], "phase": "Ready"},
    ),
    KindSample(
        _TENANCY,
        "workspaces",
        "Workspace",
        {
            "type": {"name": "universal", "path": "root"},
            "location": {"selector": _SELECTOR},
        },
        {"conditions": [_CONDITION], "initializers": [_HOOK], "phase": "Initializing"},
        "p{}",
    ),
    KindSample(
        _TENANCY,
        "workspacetypes",
        "WorkspaceType",
        _type_spec(),
        {
            "conditions": [_CONDITION],
            "virtualWorkspaces": [{"url": "https://nowhere", "type": "initializing"}],
        },
    ),
    KindSample(
        _TENANCY,
        "workspaceauthenticationconfigurations",
        "WorkspaceAuthenticationConfiguration",
        {"jwt": [_issuer()]},
    ),
    KindSample(_TOPOLOGY, "partitions", "Partition", {"selector": _SELECTOR}),
    KindSample(
        _TOPOLOGY,
        "partitionsets",
        "PartitionSet",
        {"dimensions": ["region"], "shardSelector": _SELECTOR},
        {"conditions": [_CONDITION], "count": 3},
    ),
    KindSample(
        "migration.kcp.io/v1alpha1",
        "logicalclustermigrations",
        "LogicalClusterMigration",
        {"destinationShard": "nowhere", "logicalCluster": "nothing"},
        {"conditions": [_CONDITION], "phase": "Preparing", "originShard": "nowhere"},
    ),
    KindSample(
        "migration.kcp.io/v1alpha1",
        "namespaces/default/logicalclusterdumps",
        "LogicalClusterDump",
        {"continue": "x", "limit": 3, "maxBytes": 7},
    ),
)

CLUSTER = KindSample(
    "core.kcp.io/v1alpha1",
    "logicalclusters",
    "LogicalCluster",
    {
        "directlyDeletable": True,
        "createdBy": {"username": "a", "uid": "b", "groups": ["c"], "extra": {"d": ["e"]}},
        "initializers": [_HOOK],
        "terminators": [_HOOK],
        "owner": {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "resource": "workspaces",
            "name": "nothing",
            "cluster": "nowhere",
            "uid": "u",
        },
    },
    {"conditions": [_CONDITION], "URL": "https://nowhere", "phase": "Ready"},
    name="cluster",
)
SHARD = KindSample(
    "core.kcp.io/v1alpha1",
    "shards",
    "Shard",
    {
        "baseURL": "https://a",
        "externalURL": "https://b",
        "virtualWorkspaceURL": "https://c",
    },
    {"conditions": [_CONDITION], "capacity": {"a": "1"}},
)

_ABSENT = object()
_WRONG: tuple[object, ...] = (_ABSENT, None, {}, [], "", "a b/:\u00e9", -1, True, [None], [{}])


def variants(whole: Object) -> Iterator[object]:
    """The object with each of its parts, and all of it, missing or of some other type."""
    for wrong in _WRONG[1:]:
        yield copy.deepcopy(wrong)
    yield from _inside(whole)


def _inside(value: Any) -> Iterator[Any]:
    places = list(value) if isinstance(value, dict) else range(len(value))
    for place in places:
        for wrong in _WRONG:
            made = copy.deepcopy(value)
            if wrong is _ABSENT:
                del made[place]
            else:
                made[place] = copy.deepcopy(wrong)
            yield made
        if isinstance(value[place], (dict, list)):
            for inner in _inside(value[place]):
                made = copy.deepcopy(value)
                made[place] = inner
                yield made
