"""The RBAC objects of `system:admin`: upstream's defaults and kcp's own.

`objects()` returns what the first start creates; `bootstrap_reconcile` is used by later starts.
A logical cluster that is a Kubernetes cluster has upstream's defaults, too: `kubernetes_objects()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from pykcp.auth.authz import bootstrap_roles
from pykcp.auth.authz.aggregation import aggregated_rules
from pykcp.auth.authz.rbac import RbacObjects
from pykcp.steps import at_once
from pykcp.types import Object

API_GROUP = "rbac.authorization.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"

_CONTROLLER = "system:controller:"
_DEFAULTS_LABEL = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_VERBS = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
}
_EVENTS = "create,patch,update core+events.k8s.io events"
_AGGREGATED = ("admin", "edit", "view")
_GATHERED_BY = {
    # the roles that people are given also gather each other: admin ⊃ edit ⊃ view
    "system:aggregate-to-admin": "admin",
    "edit": "admin",
    "system:aggregate-to-edit": "edit",
    "view": "edit",
    "system:aggregate-to-view": "view",
}

Subject = tuple[str, str]
"""(kind, name); a service account's name is namespace/name."""

_MANAGER, _SCHEDULER = "kube-controller-manager", "kube-scheduler"
_CLUSTER_BINDINGS: Mapping[str, tuple[Subject, ...]] = {
    "cluster-admin": (("Group", "system:masters"),),
    "system:monitoring": (("Group", "system:monitoring"),),
    "system:discovery": (("Group", "system:authenticated"),),
    "system:basic-user": (("Group", "system:authenticated"),),
    "system:public-info-viewer": (
        ("Group", "system:authenticated"),
        ("Group", "system:unauthenticated"),
    ),
    "system:service-account-issuer-discovery": (("Group", "system:serviceaccounts"),),
    "system:node-proxier": (("User", "system:kube-proxy"),),
    "system:kube-controller-manager": (("User", f"system:{_MANAGER}"),),
    "system:kube-dns": (("ServiceAccount", "kube-system/kube-dns"),),
    "system:kube-scheduler": (("User", f"system:{_SCHEDULER}"),),
    "system:volume-scheduler": (("User", f"system:{_SCHEDULER}"),),
    "system:node": (),  # nodes have an authorizer of their own
}
_BOOTSTRAPPER = "system:kcp:tenancy:workspace-bootstrapper"
_KCP_BINDINGS: Mapping[str, tuple[str, tuple[Subject, ...]]] = {
    "system:kcp:admin:cluster-admin": ("cluster-admin", (("Group", "system:kcp:admin"),)),
    _BOOTSTRAPPER: (
        _BOOTSTRAPPER,
        (("Group", _BOOTSTRAPPER), ("Group", f"apis.kcp.io:binding:{_BOOTSTRAPPER}")),
    ),
    **{
        name: (name, (("Group", name),))
        for name in (
            "system:kcp:logical-cluster-admin",
            "system:kcp:external-logical-cluster-admin",
        )
    },
}
_LEADER_LOCK = "system::leader-locking-"
_ROLE_BINDINGS: Mapping[tuple[str, str], tuple[str, tuple[Subject, ...]]] = {
    ("kube-system", "system::extension-apiserver-authentication-reader"): (
        "extension-apiserver-authentication-reader",
        (("User", f"system:{_MANAGER}"), ("User", f"system:{_SCHEDULER}")),
    ),
    ("kube-system", f"{_LEADER_LOCK}{_MANAGER}"): (
        f"{_LEADER_LOCK}{_MANAGER}",
        (
            ("User", f"system:{_MANAGER}"),
            ("ServiceAccount", f"kube-system/{_MANAGER}"),
            ("ServiceAccount", "kube-system/leader-election-controller"),
        ),
    ),
    ("kube-system", f"{_LEADER_LOCK}{_SCHEDULER}"): (
        f"{_LEADER_LOCK}{_SCHEDULER}",
        (("User", f"system:{_SCHEDULER}"), ("ServiceAccount", f"kube-system/{_SCHEDULER}")),
    ),
}


@cache
def objects() -> RbacObjects:
    """All bootstrap objects, aggregated roles filled in. They are shared: copy before changing."""
    cluster_roles = list(_cluster_roles())
    for role in cluster_roles:
        if "aggregationRule" in role:
            role["rules"] = []
    for name in reversed(_AGGREGATED):  # view first: edit gathers it, and admin gathers edit
        role = next(one for one in cluster_roles if one["metadata"]["name"] == name)
        role["rules"] = at_once(aggregated_rules(role, cluster_roles))
    return RbacObjects(
        cluster_roles,
        list(_cluster_role_bindings()),
        list(_roles()),
        list(_role_bindings()),
    )


@cache
def kubernetes_objects() -> RbacObjects:
    """Those of the bootstrap objects that every Kubernetes cluster has."""
    whole = objects()
    return RbacObjects(*(
        [one for one in kind if "labels" in one["metadata"]]
        for kind in (
            whole.cluster_roles, whole.cluster_role_bindings, whole.roles, whole.role_bindings,
        )
    ))  # fmt: skip


def namespaces() -> list[str]:
    """The namespaces that hold some of the objects."""
    return sorted({role["metadata"]["namespace"] for role in objects().roles})


# --- building -----------------------------------------------------------------


def _cluster_roles() -> Iterator[Object]:
    for name in _AGGREGATED:
        selector = {"matchLabels": {_aggregate_label(name): "true"}}
        role = _object("ClusterRole", name, _labels(name))
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        yield role
    tables = (bootstrap_roles.PEOPLE, bootstrap_roles.EVERYBODY, bootstrap_roles.COMPONENTS)
    for name, rules in _tables(*tables):
        yield {**_object("ClusterRole", name, _labels(name)), "rules": rules}
    for name, rules in _tables(bootstrap_roles.CONTROLLERS):
        yield {**_object("ClusterRole", _CONTROLLER + name, _DEFAULTS_LABEL), "rules": rules}
    for name, rules in _tables(bootstrap_roles.KCP):
        yield {**_object("ClusterRole", name), "rules": rules}


def _cluster_role_bindings() -> Iterator[Object]:
    for name, subjects in _CLUSTER_BINDINGS.items():
        yield _binding(name, name, subjects, _DEFAULTS_LABEL)
    for name, _ in _tables(bootstrap_roles.CONTROLLERS):
        account = ("ServiceAccount", f"kube-system/{name}")
        full = _CONTROLLER + name
        yield _binding(full, full, (account,), _DEFAULTS_LABEL)
    for name, (role, subjects) in _KCP_BINDINGS.items():
        yield _binding(name, role, subjects)


def _roles() -> Iterator[Object]:
    for heading, rules in _tables(bootstrap_roles.NAMESPACED):
        namespace, name = heading.split(" ")
        yield {**_object("Role", name, _DEFAULTS_LABEL, namespace), "rules": rules}


def _role_bindings() -> Iterator[Object]:
    for role in _roles():
        namespace, name = role["metadata"]["namespace"], role["metadata"]["name"]
        if name.startswith(_CONTROLLER):
            account = ("ServiceAccount", f"kube-system/{name.removeprefix(_CONTROLLER)}")
            yield _binding(name, name, (account,), _DEFAULTS_LABEL, namespace)
    for (namespace, name), (role_name, subjects) in _ROLE_BINDINGS.items():
        yield _binding(name, role_name, subjects, _DEFAULTS_LABEL, namespace)


def _aggregate_label(name: str) -> str:
    return f"{API_GROUP}/aggregate-to-{name}"


def _labels(name: str) -> dict[str, str]:
    gathered_by = _GATHERED_BY.get(name)
    return _DEFAULTS_LABEL | ({_aggregate_label(gathered_by): "true"} if gathered_by else {})


def _object(
    kind: str, name: str, labels: Mapping[str, str] | None = None, namespace: str = ""
) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
        metadata["annotations"] = {AUTO_UPDATE: "true"}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}


def _binding(
    name: str,
    role: str,
    subjects: Iterable[Subject],
    labels: Mapping[str, str] | None = None,
    namespace: str = "",
) -> Object:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    binding = _object(kind, name, labels, namespace)
    binding["roleRef"] = {
        "apiGroup": API_GROUP,
        "kind": "Role" if namespace else "ClusterRole",
        "name": role,
    }
    listed = [_subject(kind, name) for kind, name in subjects]
    return binding | ({"subjects": listed} if listed else {})


def _subject(kind: str, name: str) -> Object:
    if kind == "ServiceAccount":
        namespace, _, account = name.partition("/")
        return {"kind": kind, "name": account, "namespace": namespace}
    return {"apiGroup": API_GROUP, "kind": kind, "name": name}


# --- reading the tables -------------------------------------------------------


def _tables(*texts: str) -> Iterator[tuple[str, list[Object]]]:
    """(heading, rules) of each role."""
    heading, lines = "", list[str]()
    for line in "\n".join(texts).splitlines():
        if not line:
            continue
        if line.startswith("      "):
            lines[-1] += line.strip()
        elif line.startswith("  "):
            lines.append(line.strip())
        else:
            if heading:
                yield heading, [parse_rule(text) for text in lines]
            heading, lines = line, []
    yield heading, [parse_rule(text) for text in lines]


def parse_rule(line: str) -> Object:
    """One line of a table, as the JSON of a PolicyRule."""
    line = _EVENTS if line == "events" else line
    line, _, names = line.partition(" = ")
    verbs, *where = line.split(" ")
    rule: Object = {
        "verbs": sorted(v for word in verbs.split(",") for v in _VERBS.get(word, (word,)))
    }
    if len(where) == 1:
        rule["nonResourceURLs"] = where[0].split(",")
        return rule
    groups, resources = where
    rule["apiGroups"] = ["" if group == "core" else group for group in groups.split("+")]
    rule["resources"] = resources.split(",")
    if names:
        rule["resourceNames"] = names.split(",")
    return rule
