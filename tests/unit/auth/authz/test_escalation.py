"""Nobody grants what they do not have; the texts are those of a running kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.authz.escalation import check_binding_write, check_role_write
from pykcp.auth.authz.rbac import RbacObjects
from pykcp.auth.authz.rbac_chain import RbacChain
from pykcp.auth.authz.role_cache import ClusterRules, RoleCache
from pykcp.auth.user import User
from pykcp.machinery.status import Forbidden, NotFound

GROUP = "rbac.authorization.k8s.io"
MASTER = User("root", groups=("system:masters",))
ENTER = {"verbs": ["access"], "nonResourceURLs": ["/"]}
READ = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
WRITE = {"verbs": ["update"], "apiGroups": [""], "resources": ["configmaps"]}
ALL = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def role(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def on_rbac(verb: str, resource: str, *names: str) -> dict[str, Any]:
    rule: dict[str, Any] = {"verbs": [verb], "apiGroups": [GROUP], "resources": [resource]}
    return rule | ({"resourceNames": list(names)} if names else {})


def bound(user: str, *roles: str) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {"name": f"{user}-{name}"},
            "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": user}],
        }
        for name in ("enter", *roles)
    ]


@pytest.fixture
def authorizer() -> Authorizer:
    roles = [
        role("enter", ENTER),
        role("reader", READ),
        role("writer", READ, WRITE),
        role("escalator", on_rbac("escalate", "clusterroles")),
        role("named-escalator", on_rbac("escalate", "clusterroles", "x")),
        role("binder", on_rbac("bind", "clusterroles", "writer")),
        role("everything", *ALL),
    ]
    bindings = [
        *bound("alice", "reader"),
        *bound("eve", "escalator"),
        *bound("ned", "named-escalator"),
        *bound("ben", "binder"),
        *bound("god", "everything"),
        *bound("lost", "gone"),
    ]
    in_namespace = [
        {
            "metadata": {"name": "w", "namespace": "ns"},
            "roleRef": {"kind": "ClusterRole", "name": "writer"},
            "subjects": [{"kind": "User", "name": "alice"}],
        }
    ]
    content = ClusterRules(
        RbacObjects(roles, bindings, [], in_namespace),
        logical_cluster={"status": {"phase": "Ready"}},
    )

    async def load(cluster: str) -> ClusterRules:
        return content if cluster == "ws" else ClusterRules()

    return Authorizer(RbacChain(RoleCache(load)))


MISSING = "is attempting to grant RBAC permissions not currently held:\n"
UPDATE = '{APIGroups:[""], Resources:["configmaps"], Verbs:["update"]}'


@pytest.mark.parametrize(
    ("user", "namespace", "rules", "refusal"),
    [
        ("alice", "", [READ], None),
        ("alice", "", [READ, WRITE], f'user "alice" (groups=[]) {MISSING}{UPDATE}'),
        ("alice", "ns", [READ, WRITE], None),
        ("alice", "other", [WRITE], f'user "alice" (groups=[]) {MISSING}{UPDATE}'),
        ("alice", "", [], None),
        ("eve", "", [WRITE], None),
        ("eve", "ns", [WRITE], f'user "eve" (groups=[]) {MISSING}{UPDATE}'),
        ("ned", "", [WRITE], f'user "ned" (groups=[]) {MISSING}{UPDATE}'),
        ("god", "", ALL, None),
        ("lost", "", [WRITE],
         (f'user "lost" (groups=[]) {MISSING}{UPDATE}; resolution errors: '
         '[clusterrole.rbac.authorization.k8s.io "gone" not found]')),
    ],
)  # fmt: skip
async def test_creating_roles(
    authorizer: Authorizer, user: str, namespace: str, rules: Any, refusal: str | None
) -> None:
    written = role("x", *rules)
    if refusal is None:
        await check_role_write(authorizer, "ws", User(user), written, namespace=namespace)
        return
    with pytest.raises(Forbidden) as caught:
        await check_role_write(authorizer, "ws", User(user), written, namespace=namespace)
    resource = "roles" if namespace else "clusterroles"
    assert caught.value.message == f'{resource}.{GROUP} "x" is forbidden: {refusal}'


async def test_updating_a_role_one_may_escalate_by_name(authorizer: Authorizer) -> None:
    await check_role_write(
        authorizer, "ws", User("ned"), role("x", WRITE), existing=role("x", READ)
    )


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({}, {"finalizers": ["f"]}, True),
        ({"ownerReferences": [{"uid": "1"}]}, {}, True),
        ({}, {}, True),
        ({}, {"labels": {"a": "b"}}, False),
    ],
)
async def test_the_garbage_collector_may_change_what_it_must(
    authorizer: Authorizer, old: Any, new: Any, allowed: bool
) -> None:
    existing, changed = role("x", WRITE), role("x", WRITE)
    existing["metadata"] |= old
    changed["metadata"] |= new
    if allowed:
        await check_role_write(authorizer, "ws", User("alice"), changed, existing=existing)
    else:
        with pytest.raises(Forbidden):
            await check_role_write(authorizer, "ws", User("alice"), changed, existing=existing)


GATHER = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}


@pytest.mark.parametrize(
    ("user", "written", "existing", "allowed"),
    [
        ("god", role("x", **GATHER), None, True),
        ("alice", role("x", **GATHER), None, False),
        ("alice", role("x", READ), role("x", **GATHER), False),
        ("alice", role("x", aggregationRule={"clusterRoleSelectors": []}), None, True),
    ],
)
async def test_aggregation_gathers_anything_so_it_takes_everything(
    authorizer: Authorizer, user: str, written: Any, existing: Any, allowed: bool
) -> None:
    if allowed:
        await check_role_write(authorizer, "ws", User(user), written, existing=existing)
        return
    with pytest.raises(Forbidden, match="must have cluster-admin privileges to use"):
        await check_role_write(authorizer, "ws", User(user), written, existing=existing)


def binding(ref: str, kind: str = "ClusterRole") -> dict[str, Any]:
    return {"metadata": {"name": "b"}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": ref}}


@pytest.mark.parametrize(
    ("user", "namespace", "ref", "allowed"),
    [
        ("alice", "", "reader", True),
        ("alice", "", "writer", False),
        ("alice", "ns", "writer", True),
        ("ben", "", "writer", True),
        ("ben", "ns", "writer", True),
        ("ben", "", "reader", False),
        ("god", "", "everything", True),
    ],
)
async def test_binding_roles(
    authorizer: Authorizer, user: str, namespace: str, ref: str, allowed: bool
) -> None:
    if allowed:
        await check_binding_write(authorizer, "ws", User(user), binding(ref), namespace=namespace)
        return
    with pytest.raises(Forbidden) as caught:
        await check_binding_write(authorizer, "ws", User(user), binding(ref), namespace=namespace)
    assert caught.value.message.startswith(
        f'clusterrolebindings.{GROUP} "b" is forbidden: user "{user}" (groups=[]) {MISSING}'
    )


@pytest.mark.parametrize(
    ("kind", "namespace", "resource"),
    [
        ("ClusterRole", "", "clusterrolebindings"),
        ("Role", "ns", "rolebindings"),
        ("Odd", "ns", "rolebindings"),
    ],
)
async def test_a_role_that_is_not_there_cannot_be_bound(
    authorizer: Authorizer, kind: str, namespace: str, resource: str
) -> None:
    with pytest.raises(NotFound) as caught:
        await check_binding_write(
            authorizer, "ws", User("alice"), binding("nope", kind), namespace=namespace
        )
    assert caught.value.message == f'{resource}.{GROUP} "nope" not found'


async def test_masters_do_as_they_please(authorizer: Authorizer) -> None:
    await check_role_write(authorizer, "ws", MASTER, role("x", *ALL, **GATHER))
    await check_binding_write(authorizer, "ws", MASTER, binding("nope"))


async def test_an_update_that_changes_nothing_needs_nothing(authorizer: Authorizer) -> None:
    existing = binding("writer")
    await check_binding_write(authorizer, "ws", User("alice"), binding("writer"), existing=existing)
