"""What the logical cluster `root` holds from the start, as data: types, roles, bindings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pykcp.types import Object

BATTERY = "bootstrap.kcp.io/battery"
CREATE_ONLY = "bootstrap.kcp.io/create-only"
BOOTSTRAPPER = "system:kcp-bootstrapper"
_RBAC = "rbac.authorization.k8s.io"
_AUTHENTICATED = "system:authenticated"
_UNIVERSAL: Object = {"name": "universal", "path": "root"}
_EXTENDS_UNIVERSAL: Object = {"with": [_UNIVERSAL]}


def _type(name: str, spec: Object, annotations: Mapping[str, str] | None = None) -> Object:
    metadata: Object = {"name": name}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "WorkspaceType",
        "metadata": metadata,
        "spec": spec,
    }


def workspace_types(batteries: frozenset[str]) -> list[Object]:
    """The standard types; organization and team come with a battery."""
    has_types = "workspace-types" in batteries
    root_child = {"name": "organization", "path": "root"} if has_types else _UNIVERSAL
    types = [
        _type(
            "universal",
            {
                "initializer": True,
                "defaultAPIBindings": [
                    {"path": "root", "export": "tenancy.kcp.io"},
                    {"path": "root", "export": "topology.kcp.io"},
                ],
                "defaultChildWorkspaceType": _UNIVERSAL,
            },
        ),
        _type(
            "root",
            {
                "extend": _EXTENDS_UNIVERSAL,
                "limitAllowedParents": {"none": True},
                "defaultChildWorkspaceType": root_child,
            },
            {CREATE_ONLY: "true"},
        ),
        _type(
            "home",
            {
                "extend": _EXTENDS_UNIVERSAL,
                "limitAllowedParents": {"none": True},
                "defaultChildWorkspaceType": _UNIVERSAL,
            },
        ),
    ]
    return types + _battery_types() if has_types else types


def _battery_types() -> list[Object]:
    mark = {BATTERY: "workspace-types"}
    organization: Object = {"name": "organization", "path": "root"}
    team: Object = {"name": "team", "path": "root"}
    return [
        _type(
            "organization",
            {
                "extend": _EXTENDS_UNIVERSAL,
                "defaultChildWorkspaceType": _UNIVERSAL,
                "limitAllowedChildren": {"types": [_UNIVERSAL]},
                "limitAllowedParents": {"types": [{"name": "root", "path": "root"}]},
            },
            mark,
        ),
        _type(
            "team",
            {
                "extend": _EXTENDS_UNIVERSAL,
                "defaultChildWorkspaceType": _UNIVERSAL,
                "limitAllowedParents": {"types": [organization, team]},
            },
            mark,
        ),
    ]


def _rule(group: str, resources: list[str], verbs: list[str], *names: str) -> Object:
    rule: Object = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    if names:
        rule["resourceNames"] = list(names)
    return rule


def _roles() -> dict[str, list[Object]]:
    tenancy, topology = "tenancy.kcp.io", "topology.kcp.io"
    kinds = ["workspaces", "workspaceauthenticationconfigurations", "workspacetypes"]
    statuses = ["workspaces/status", "workspacetypes/status"]
    exports = ["apiexports"]
    return {
        "system:kcp:apiexport:kcp-admin:maximal-permission-policy": [_rule(tenancy, ["*"], ["*"])],
        "system:kcp:apiexport:tenancy:bind": [_rule("apis.kcp.io", exports, ["bind"], tenancy)],
        "system:kcp:apiexport:tenancy:maximal-permission-policy": [
            _rule(tenancy, kinds, ["*"]),
            _rule(tenancy, statuses, ["list", "watch", "get"]),
        ],
        "system:kcp:apiexport:topology:bind": [_rule("apis.kcp.io", exports, ["bind"], topology)],
        "system:kcp:apiexport:topology:maximal-permission-policy": [
            _rule(topology, ["partitions", "partitionsets"], ["*"])
        ],
        "system:kcp:apiexport:workload:bind": [
            _rule("apis.kcp.io", exports, ["bind"], "workload.kcp.dev")
        ],
        "system:kcp:home-clusterworkspace-create": [
            _rule(tenancy, ["workspaces"], ["get", "create"], "~")
        ],
        "system:kcp:universal-workspacetype-use": [
            _rule(tenancy, ["workspacetypes"], ["use"], "universal", "organization", "team")
        ],
    }


def cluster_roles() -> Iterator[Object]:
    for name, rules in _roles().items():
        yield {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        }


def cluster_role_bindings(home_creators: tuple[str, ...]) -> Iterator[Object]:
    everybody = ("Group", _AUTHENTICATED)
    bound_everybody = ("Group", f"apis.kcp.io:binding:{_AUTHENTICATED}")
    prefix = "system:kcp:authenticated:"
    table: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
        f"{prefix}apiexport:kcp-admin:maximal-permission-policy": (
            "system:kcp:apiexport:kcp-admin:maximal-permission-policy",
            (("Group", "apis.kcp.io:binding:system:kcp:admin"),),
        ),
        f"{prefix}tenancy:reader": ("system:kcp:tenancy:reader", (everybody,)),
        f"{prefix}universal-workspacetype-use": (
            "system:kcp:universal-workspacetype-use",
            (everybody,),
        ),
        "system:kcp:configured-group:home-clusterworkspace-create": (
            "system:kcp:home-clusterworkspace-create",
            tuple(("Group", group) for group in home_creators),
        ),
        "system:kcp:tenancy:authenticated:access": ("system:kcp:workspace:access", (everybody,)),
        "workspace-admin": ("cluster-admin", (("User", BOOTSTRAPPER),)),
    }
    for api in ("tenancy", "topology"):
        table[f"{prefix}apiexport:{api}:bind"] = (f"system:kcp:apiexport:{api}:bind", (everybody,))
        table[f"{prefix}apiexport:{api}:maximal-permission-policy"] = (
            f"system:kcp:apiexport:{api}:maximal-permission-policy",
            (bound_everybody,),
        )
    bind_workload = "apiexport:workload:bind"
    table[f"{prefix}{bind_workload}"] = (f"system:kcp:{bind_workload}", (everybody,))
    for name, (role, subjects) in table.items():
        yield cluster_role_binding(name, role, subjects)


def cluster_role_binding(name: str, role: str, subjects: tuple[tuple[str, str], ...]) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [
            {"apiGroup": _RBAC, "kind": kind, "name": subject} for kind, subject in subjects
        ],
    }


METRICS_VIEWER = "metrics-viewer"
_VIEWER_MARK = {BATTERY: METRICS_VIEWER}


def metrics_viewer_access() -> list[Object]:
    """Who may read the shard's metrics, with the battery of that name: a role and its binding."""
    role: Object = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": METRICS_VIEWER, "annotations": dict(_VIEWER_MARK)},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    binding = cluster_role_binding(METRICS_VIEWER, METRICS_VIEWER, (("User", METRICS_VIEWER),))
    binding["metadata"]["annotations"] = dict(_VIEWER_MARK)
    account = {"kind": "ServiceAccount", "name": "metrics", "namespace": "default"}
    binding["subjects"].insert(0, account)
    return [role, binding]


def metrics_viewer_account() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": "metrics",
            "namespace": "default",
            "annotations": dict(_VIEWER_MARK),
        },
    }


def metrics_viewer_secret() -> Object:
    """The controller of token secrets puts the token in."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "metrics",
            "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": "metrics", **_VIEWER_MARK},
        },
    }
