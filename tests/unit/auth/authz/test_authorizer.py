"""The whole chain over loaded clusters: verdicts, what clients hear, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.auth.authz.attributes import ALLOW, Attributes, Decision, Verdict, path_attributes
from pykcp.auth.authz.chain import Authorizer, PathMatcher
from pykcp.auth.authz.rbac import RbacObjects, RoleError
from pykcp.auth.authz.rbac_chain import RbacChain
from pykcp.auth.authz.role_cache import ClusterRules, RoleCache
from pykcp.auth.authz.stages import Finding, delegate
from pykcp.auth.user import User
from pykcp.steps import Steps

ALICE = User("alice", groups=("system:authenticated",))
MASTER = User("root", groups=("system:masters",))
KCP_ADMIN = User("kcp-admin", groups=("system:kcp:admin", "system:authenticated"))


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def bound(name: str, ref: str, kind: str, subject: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": ref},
        "subjects": [{"kind": kind, "name": subject}],
    }


ENTER = {"verbs": ["access"], "nonResourceURLs": ["/"]}
READ = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
ALL = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


def admin_content() -> ClusterRules:
    return ClusterRules(
        RbacObjects(
            [role("cluster-admin", *ALL), role("enter", ENTER), role("reader", READ)],
            [bound("admins", "cluster-admin", "Group", "system:kcp:admin")],
        )
    )


def workspace(*bindings: dict[str, Any], phase: str = "Ready", **more: Any) -> ClusterRules:
    found = {"metadata": {}, "status": {"phase": phase}}
    return ClusterRules(RbacObjects(cluster_role_bindings=bindings), logical_cluster=found, **more)


class World:
    """Logical clusters that can change, and a count of how often they were read."""

    def __init__(self, **clusters: ClusterRules) -> None:
        self.clusters = {"system:admin": admin_content(), **clusters}
        self.reads: list[str] = []
        self.while_reading: Callable[[str], None] = lambda _: None
        self.cache = RoleCache(self.load)

    async def load(self, cluster: str) -> ClusterRules:
        self.reads.append(cluster)
        content = self.clusters.get(cluster, ClusterRules())
        self.while_reading(cluster)
        return content

    def change(self, cluster: str, content: ClusterRules, resource: str) -> None:
        self.clusters[cluster] = content
        self.cache.invalidate(cluster, resource)

    def authorizer(self, **options: Any) -> Authorizer:
        ceiling = options.pop("ceiling", None)
        return Authorizer(RbacChain(self.cache, ceiling), **options)


@pytest.fixture
def world() -> World:
    return World(
        ws=workspace(
            bound("a", "enter", "User", "alice"),
            bound("b", "reader", "User", "alice"),
            bound("c", "reader", "User", "outsider"),
        ),
        closed=workspace(),
        scheduling=workspace(bound("a", "enter", "User", "alice"), phase="Scheduling"),
    )


def get_config_map(user: User, name: str = "x") -> Attributes:
    return Attributes(user, "get", "ns", "", "configmaps", name=name)


@pytest.mark.parametrize(
    ("cluster", "attributes", "verdict", "reason"),
    [
        ("ws", get_config_map(ALICE), Verdict.ALLOW, "access granted"),
        ("ws", get_config_map(User("outsider")), Verdict.NO_OPINION, "access denied"),
        ("ws", get_config_map(MASTER), Verdict.ALLOW, ""),
        ("ws", get_config_map(KCP_ADMIN), Verdict.ALLOW, "access granted"),
        ("closed", get_config_map(ALICE), Verdict.NO_OPINION, "access denied"),
        ("closed", get_config_map(KCP_ADMIN), Verdict.ALLOW, "access granted"),
        ("scheduling", get_config_map(ALICE), Verdict.NO_OPINION, "access denied"),
        ("unknown", get_config_map(KCP_ADMIN), Verdict.NO_OPINION, "access denied"),
        ("unknown", get_config_map(MASTER), Verdict.ALLOW, ""),
        ("system:admin", get_config_map(KCP_ADMIN), Verdict.NO_OPINION, "access denied"),
        ("system:admin", get_config_map(MASTER), Verdict.ALLOW, ""),
        ("*", get_config_map(KCP_ADMIN), Verdict.NO_OPINION, "access denied"),
        ("*", get_config_map(MASTER), Verdict.ALLOW, ""),
        ("", path_attributes(KCP_ADMIN, "get", "/api"), Verdict.NO_OPINION, "access denied"),
        ("", path_attributes(User("x"), "get", "/readyz"), Verdict.ALLOW, ""),
        ("", path_attributes(ALICE, "get", "/readyz/x"), Verdict.NO_OPINION, "access denied"),
        ("ws", Attributes(KCP_ADMIN, "get", "", "apis.kcp.io", "apiexports", "status"),
         Verdict.DENY, "access denied"),
    ],
)  # fmt: skip
async def test_verdicts(
    world: World, cluster: str, attributes: Attributes, verdict: Verdict, reason: str
) -> None:
    authorizer = world.authorizer()
    for _ in range(2):  # computed, then remembered
        decision = await authorizer.authorize(cluster, attributes)
        assert (decision.verdict, decision.reason) == (verdict, reason)
        assert decision.allowed is (verdict is Verdict.ALLOW)


async def test_steps_say_which_stage_decided_and_why(world: World) -> None:
    decision = await world.authorizer().authorize("ws", get_config_map(ALICE))
    assert [(s.stage, s.verdict.value, s.reason) for s in decision.steps] == [
        ("05-bootstrap", "NoOpinion", "bootstrap policy: "),
        ("05-local", "Allowed",
         ('local cluster "ws" policy: RBAC: allowed by ClusterRoleBinding "b" of ClusterRole '
         '"reader" to User "alice"')),
        ("04-maxpermissionpolicy", "Allowed", "delegating due to no relevant binding found"),
        ("03-systemcrd", "Allowed", "delegating due to no system CRD violation"),
        ("02-content", "Allowed", "delegating due to user logical cluster access"),
        ("01-requiredgroups", "Allowed",
         "delegating due to logical cluster does not require groups"),
    ]  # fmt: skip


async def test_a_refusal_by_rbac_has_asked_everywhere(world: World) -> None:
    asked = Attributes(ALICE, "delete", "ns", "", "configmaps")
    decision = await world.authorizer().authorize("ws", asked)
    assert [(s.stage, s.verdict.value, s.reason) for s in decision.steps[:3]] == [
        ("05-bootstrap", "NoOpinion", "bootstrap policy: "),
        ("05-local", "NoOpinion", 'local cluster "ws" policy: '),
        ("05-global", "NoOpinion", 'global cluster "ws" policy: '),
    ]


async def test_steps_stop_where_a_stage_answers(world: World) -> None:
    decision = await world.authorizer().authorize("closed", get_config_map(ALICE))
    assert [(s.stage, s.verdict.value) for s in decision.steps] == [
        ("02-content", "NoOpinion"), ("01-requiredgroups", "NoOpinion"),
    ]  # fmt: skip


async def test_a_cluster_is_read_once_and_a_decision_then_known(world: World) -> None:
    authorizer = world.authorizer()
    assert authorizer.peek("ws", get_config_map(ALICE)) is None
    first = await authorizer.authorize("ws", get_config_map(ALICE, "x"))
    assert authorizer.peek("ws", get_config_map(ALICE, "y")) is first
    assert authorizer.peek("ws", get_config_map(User("other"))) is None
    assert sorted(world.reads) == ["system:admin", "ws"]


@pytest.mark.parametrize(
    ("cluster", "resource"),
    [
        ("ws", "clusterrolebindings"), ("ws", "clusterroles"), ("ws", "roles"),
        ("ws", "rolebindings"), ("ws", "logicalclusters"), ("system:admin", "clusterroles"),
    ],
)  # fmt: skip
async def test_a_change_makes_decisions_forgotten(
    world: World, cluster: str, resource: str
) -> None:
    authorizer = world.authorizer()
    assert (await authorizer.authorize("ws", get_config_map(ALICE))).allowed
    empty = ClusterRules() if cluster == "system:admin" else workspace()
    world.change(cluster, empty, resource)
    assert authorizer.peek("ws", get_config_map(ALICE)) is None
    assert not (await authorizer.authorize("ws", get_config_map(ALICE))).allowed


async def test_changes_of_other_kinds_and_clusters_are_nothing_to_us(world: World) -> None:
    authorizer = world.authorizer()
    decision = await authorizer.authorize("ws", get_config_map(ALICE))
    world.cache.invalidate("ws", "configmaps")
    world.cache.invalidate("closed", "clusterroles")
    assert authorizer.peek("ws", get_config_map(ALICE)) is decision


async def test_a_new_logical_cluster_is_noticed(world: World) -> None:
    authorizer = world.authorizer()
    assert not (await authorizer.authorize("later", get_config_map(KCP_ADMIN))).allowed
    world.change("later", workspace(), "logicalclusters")
    assert (await authorizer.authorize("later", get_config_map(KCP_ADMIN))).allowed


@pytest.mark.parametrize("changed", ["ws", "system:admin"])
async def test_what_changes_while_it_is_read_is_read_again(world: World, changed: str) -> None:
    authorizer = world.authorizer()

    def revoke(cluster: str) -> None:
        if cluster == changed:
            world.while_reading = lambda _: None
            world.change(changed, ClusterRules() if changed != "ws" else workspace(), "roles")

    world.while_reading = revoke
    await authorizer.authorize("ws", get_config_map(ALICE))  # may still see the old state
    assert authorizer.peek("ws", get_config_map(ALICE)) is None
    assert not (await authorizer.authorize("ws", get_config_map(ALICE))).allowed


async def test_decisions_that_depend_on_a_name_are_kept_by_name() -> None:
    named = {**READ, "resourceNames": ["one"]}
    content = ClusterRules(
        RbacObjects(
            [role("named", named)],
            [bound("a", "enter", "User", "alice"), bound("b", "named", "User", "alice")],
        ),
        logical_cluster={"status": {"phase": "Ready"}},
    )
    authorizer = World(ws=content).authorizer()
    for _ in range(2):
        assert (await authorizer.authorize("ws", get_config_map(ALICE, "one"))).allowed
        assert not (await authorizer.authorize("ws", get_config_map(ALICE, "two"))).allowed
    known = authorizer.peek("ws", get_config_map(ALICE, "one"))
    assert known is not None
    assert known.allowed
    assert authorizer.peek("ws", get_config_map(ALICE, "three")) is None


async def test_a_deep_review_asks_rbac_alone(world: World) -> None:
    authorizer = world.authorizer()
    outsider = get_config_map(User("outsider"))
    assert (await authorizer.authorize("ws", outsider, is_deep=True)).allowed
    assert not (await authorizer.authorize("ws", outsider)).allowed
    assert (await authorizer.authorize("ws", outsider, is_deep=True)).allowed


async def test_replicated_policy_counts_as_the_clusters_own() -> None:
    replicated = RbacObjects(
        [role("r", READ)], [bound("a", "enter", "User", "alice"), bound("b", "r", "User", "alice")]
    )
    world = World(ws=workspace(replicated=replicated))
    decision = await world.authorizer().authorize("ws", get_config_map(ALICE))
    assert decision.allowed
    assert [step.stage for step in decision.steps[:3]] == ["05-bootstrap", "05-local", "05-global"]


async def test_a_ceiling_can_refuse_and_hand_on(world: World) -> None:
    def ceiling(attributes: Attributes, cluster: str, state_of: Any) -> Steps[Finding]:
        yield
        state_of("closed")  # another cluster is loaded when it is asked for
        if attributes.name == "limited":
            return Finding(Verdict.NO_OPINION, "policy", depends_on_name=True)
        return delegate("policy")._replace(depends_on_name=True)

    authorizer = world.authorizer(ceiling=ceiling)
    for _ in range(2):
        assert (await authorizer.authorize("ws", get_config_map(ALICE, "free"))).allowed
        assert not (await authorizer.authorize("ws", get_config_map(ALICE, "limited"))).allowed
    assert "closed" in world.reads


class Webhook:
    def __init__(self, **verdicts: Verdict) -> None:
        self.verdicts, self.asked = verdicts, list[str]()

    async def __call__(self, cluster: str, attributes: Attributes) -> Decision:
        self.asked.append(attributes.user.name)
        verdict = self.verdicts.get(attributes.user.name, Verdict.NO_OPINION)
        return Decision(verdict, f"webhook on {attributes.user.name}")


@pytest.mark.parametrize(
    ("order", "user", "verdict", "reason"),
    [
        ("RBAC,Webhook", "alice", Verdict.ALLOW, "access granted"),
        ("Webhook,RBAC", "alice", Verdict.DENY, "webhook on alice"),
        ("RBAC,Webhook", "bob", Verdict.ALLOW, "webhook on bob"),
        ("RBAC,Webhook", "carol", Verdict.NO_OPINION, "access denied\nwebhook on carol"),
    ],
)
async def test_authorizers_are_asked_in_the_order_given(
    world: World, order: str, user: str, verdict: Verdict, reason: str
) -> None:
    webhook = Webhook(alice=Verdict.DENY, bob=Verdict.ALLOW)
    authorizer = world.authorizer(order=order.split(","), webhook=webhook)
    decision = await authorizer.authorize("ws", get_config_map(User(user)))
    assert (decision.verdict, decision.reason) == (verdict, reason)
    assert authorizer.peek("ws", get_config_map(User(user))) is None


async def test_a_webhook_is_asked_about_warrants_too(world: World) -> None:
    webhook = Webhook(bob=Verdict.ALLOW)
    user = User("x", extra={"authorization.kcp.io/warrant": ('{"user":"bob"}',)})
    authorizer = world.authorizer(webhook=webhook)
    assert (await authorizer.authorize("ws", get_config_map(user))).allowed
    assert webhook.asked == ["x", "bob"]


async def test_privileged_groups_wait_their_turn(world: World) -> None:
    webhook = Webhook(root=Verdict.DENY)
    authorizer = world.authorizer(order=["Webhook", "AlwaysAllowGroups"], webhook=webhook)
    assert not (await authorizer.authorize("ws", get_config_map(MASTER))).allowed
    assert world.authorizer().peek("ws", get_config_map(MASTER)) is ALLOW


def test_unknown_authorizers_and_bad_paths_are_refused(world: World) -> None:
    with pytest.raises(ValueError, match='invalid authorizer: "Node"'):
        world.authorizer(order=["Node"])
    with pytest.raises(ValueError, match="only trailing"):
        PathMatcher(["/a*b"])


@pytest.mark.parametrize(
    ("patterns", "path", "matches"),
    [
        (["/healthz"], "/healthz", True),
        (["healthz"], "/healthz", True),
        (["/healthz"], "/healthz/x", False),
        (["/healthz/*"], "/healthz/x", True),
        (["/"], "/", True),
        (["/"], "/x", False),
        (["*"], "/x", True),
        ([], "/x", False),
    ],
)
def test_paths(patterns: list[str], path: str, matches: bool) -> None:
    assert PathMatcher(patterns).matches(path) is matches


async def test_rules_for_are_those_of_everywhere_and_here(world: World) -> None:
    rules, errors = await world.authorizer().rules_for("ws", KCP_ADMIN, "ns")
    assert [rule.to_json() for rule in rules] == ALL
    assert errors == []
    rules, _ = await world.authorizer().rules_for("ws", ALICE, "ns")
    assert [rule.to_json() for rule in rules] == [ENTER, READ]
    rules, errors = await world.authorizer().rules_for("", KCP_ADMIN, "ns")
    assert len(rules) == 2
    assert errors == ["empty cluster name"]


async def test_role_rules_are_found_here_or_in_the_admin_cluster(world: World) -> None:
    authorizer = world.authorizer()
    (rule,) = await authorizer.role_rules("ws", "ClusterRole", "reader", "")
    assert rule.to_json() == READ
    with pytest.raises(RoleError):
        await authorizer.role_rules("ws", "Role", "reader", "ns")


async def test_memory_is_bounded(world: World) -> None:
    cache = RoleCache(world.load, remember=10)
    authorizer = Authorizer(RbacChain(cache, remember=10), remember=20)
    for number in range(200):
        await authorizer.authorize(f"c{number}", get_config_map(ALICE))
        await authorizer.authorize("ws", get_config_map(User(f"u{number}")))
    assert len(cache._states) <= 10
    assert len(authorizer._known) <= 20
    assert cache._reading == {}


async def test_a_cleared_cache_reads_again(world: World) -> None:
    authorizer = world.authorizer()
    await authorizer.authorize("ws", get_config_map(ALICE))
    world.cache.clear()
    assert authorizer.peek("ws", get_config_map(ALICE)) is None
    await authorizer.authorize("ws", get_config_map(ALICE))
    assert world.reads.count("ws") == 2


async def test_a_loader_that_fails_leaves_nothing_behind(world: World) -> None:
    def fail(cluster: str) -> None:
        raise OSError("disk")

    world.while_reading = fail
    with pytest.raises(OSError, match="disk"):
        await world.authorizer().authorize("ws", get_config_map(ALICE))
    assert world.cache._reading == {}
