"""Who may do what: roles and bindings, refusals, impersonation, reviews, tokens, certificates."""

from __future__ import annotations

import base64
import itertools
import pathlib
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from typing import Any

import pytest

from pykcp.auth.certificates import KeyPair, create_ca, issue_client
from pykcp.testing.client import APPLY, Reply, TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.server import ServerProcess, server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
SYSTEM_ACCESS = "system:kcp:workspace:access"


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with static tokens and a trusted proxy."""
    directory = tmp_path_factory.mktemp("access")
    tokens = directory / "tokens.csv"
    tokens.write_text('alice-token,alice,a1,"devs,testers"\nbob-token,bob,b1\n')
    proxy = create_ca("proxy-ca", time.time())
    (directory / "proxy-ca.crt").write_bytes(proxy.certificate)
    (directory / "proxy-ca.key").write_bytes(proxy.key)
    flags = (
        f"--token-auth-file={tokens}",
        f"--requestheader-client-ca-file={directory / 'proxy-ca.crt'}",
        "--requestheader-allowed-names=front",
    )
    with server(*flags, directory=directory) as process:
        yield process


def ready(cluster: TestClient) -> TestClient:
    """Only logical clusters that are ready let anybody but masters in."""
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status"
    assert cluster.patch(path, {"status": {"phase": "Ready"}}).status == 200
    return cluster


_numbers = itertools.count(1)


@pytest.fixture
def cluster(shard: ServerProcess) -> TestClient:
    """system:masters in a fresh logical cluster that is ready."""
    return ready(make_cluster(shard, f"access{next(_numbers)}"))


def allow_entry(cluster: TestClient, *users: str) -> None:
    """Let users into the logical cluster, as kcp asks for."""
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": u} for u in users]
    body = {
        "metadata": {"name": "entry"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SYSTEM_ACCESS},
        "subjects": subjects,
    }  # fmt: skip
    assert cluster.post(f"{RBAC}/clusterrolebindings", body).status == 201


def grant(cluster: TestClient, user: str, *verbs: str, resource: str = "configmaps") -> None:
    """A role in the namespace `default` and its binding."""
    name = f"{user}-{resource}-{len(verbs)}"
    rule = {"apiGroups": [""], "resources": [resource], "verbs": list(verbs)}
    place = f"{RBAC}/namespaces/default"
    assert (
        cluster.post(f"{place}/roles", {"metadata": {"name": name}, "rules": [rule]}).status == 201
    )
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }
    assert cluster.post(f"{place}/rolebindings", binding).status == 201


def message(reply: Reply, code: int = 403) -> str:
    assert reply.status == code, reply
    text: str = reply.json["message"]
    return text


def test_a_role_lets_in_and_nothing_else(cluster: TestClient) -> None:
    """Exactly the granted verbs in the granted namespace, at once."""
    alice = cluster.with_token("alice-token")
    assert alice.get(MAPS).status == 403
    allow_entry(cluster, "alice")
    grant(cluster, "alice", "get", "list", "create")
    eventually(lambda: alice.get(MAPS).status == 200)
    assert alice.post(MAPS, {"metadata": {"name": "a"}}).status == 201
    assert message(alice.delete(f"{MAPS}/a")) == (
        'configmaps "a" is forbidden: User "alice" cannot delete resource "configmaps" in API group "" in the '
        'namespace "default": access denied'
    )
    assert alice.get("/api/v1/configmaps").status == 403
    assert alice.get("/api/v1/namespaces/default/secrets").status == 403
    assert cluster.with_token("bob-token").get(MAPS).status == 403


def test_updates_that_create(cluster: TestClient) -> None:
    """Who applies or puts what is not there creates it, and must be allowed to."""
    alice = cluster.with_token("alice-token")
    allow_entry(cluster, "alice")
    grant(cluster, "alice", "get", "patch", "update", resource="resourcequotas")
    quotas = "/api/v1/namespaces/default/resourcequotas"
    eventually(lambda: alice.get(f"{quotas}/q").status == 404)
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    refused = (
        'resourcequotas "q" is forbidden: User "alice" cannot create resource "resourcequotas" in API '
        'group "" in the namespace "default": access denied'
    )
    applied = alice.patch(f"{quotas}/q", body, APPLY, fieldManager="a")
    assert message(applied) == refused
    assert cluster.patch(f"{quotas}/q", body, APPLY, fieldManager="a").status == 201
    assert alice.patch(f"{quotas}/q", body, APPLY, fieldManager="a").status == 200


@pytest.mark.parametrize("padding", ["", "x" * 600_000])
def test_what_is_wrong_with_a_new_object_is_told_before_that_it_may_not_be_made(
    cluster: TestClient, padding: str
) -> None:
    alice = cluster.with_token("alice-token")
    allow_entry(cluster, "alice")
    grant(cluster, "alice", "patch")

    def apply(text: str) -> Reply:
        sent = f"{text}# {padding}\n"
        return alice.patch(f"{MAPS}/new", sent, APPLY, fieldManager="me")

    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: new\n"
    eventually(lambda: apply("{:").status == 400)
    assert apply(head + "  labels: {a: 'b c'}\n").status == 422
    text = message(apply(head))
    assert 'User "alice" cannot create resource "configmaps"' in text
    grant(cluster, "alice", "patch", "create")
    eventually(lambda: apply(head).status == 201)


def test_withdrawing_a_binding_works_at_once(cluster: TestClient) -> None:
    """The next request after the deletion is refused."""
    alice = cluster.with_token("alice-token")
    allow_entry(cluster, "alice")
    grant(cluster, "alice", "list")
    eventually(lambda: alice.get(MAPS).status == 200)
    cluster.delete(f"{RBAC}/namespaces/default/rolebindings/alice-configmaps-1")
    eventually(lambda: alice.get(MAPS).status == 403)


def test_rights_of_one_cluster_are_none_in_another(
    shard: ServerProcess, cluster: TestClient
) -> None:
    """A binding reaches no further than its logical cluster."""
    other = ready(make_cluster(shard, "access-other"))
    allow_entry(cluster, "alice")
    grant(cluster, "alice", "list")
    eventually(lambda: cluster.with_token("alice-token").get(MAPS).status == 200)
    assert other.with_token("alice-token").get(MAPS).status == 403


def test_nobody_grants_more_than_they_have(cluster: TestClient) -> None:
    """Creating a role, or binding one, needs its rights; `escalate` and `bind` lift that."""
    alice = cluster.with_token("alice-token")
    allow_entry(cluster, "alice")
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]  # fmt: skip
    cluster.post(f"{RBAC}/clusterroles", {"metadata": {"name": "granter"}, "rules": rules})
    binding = {
        "metadata": {"name": "granter"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "granter",
        },
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
    }
    cluster.post(f"{RBAC}/clusterrolebindings", binding)
    place = f"{RBAC}/namespaces/default"

    def role(name: str, *verbs: str) -> dict[str, Any]:
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}
        return {"metadata": {"name": name}, "rules": [rule]}

    eventually(lambda: alice.post(f"{place}/roles", role("small", "get")).status == 201)
    text = message(alice.post(f"{place}/roles", role("large", "get", "delete")))
    assert 'roles.rbac.authorization.k8s.io "large" is forbidden: user "alice"' in text
    assert "is attempting to grant RBAC permissions not currently held:" in text
    assert 'APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]' in text
    cluster.post(f"{place}/roles", role("theirs", "delete"))
    bound = {**binding, "metadata": {"name": "b"}, "roleRef": {**binding["roleRef"], "kind": "Role", "name": "theirs"}}  # type: ignore[dict-item]  # fmt: skip
    text = message(alice.post(f"{place}/rolebindings", bound))
    assert "is attempting to grant RBAC permissions not currently held" in text


def test_impersonation(cluster: TestClient) -> None:
    """Masters act as anybody, with that user's rights; others may not."""
    as_alice = {"Impersonate-User": "alice"}
    assert cluster.get(MAPS, headers=as_alice).status == 403
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    headers = {**as_alice, "Impersonate-Group": "system:masters"}
    assert cluster.get(MAPS, headers=headers).status == 200
    allow_entry(cluster, "alice", "bob")
    answer = eventually(
        lambda: (r := cluster.post(path, review, headers=as_alice)).status == 201 and r
    )
    user = answer.json["status"]["userInfo"]
    assert user["username"] == "alice"
    assert "system:authenticated" in user["groups"]
    bob = cluster.with_token("bob-token")
    text = message(bob.get(MAPS, headers=as_alice))
    assert 'User "bob" cannot impersonate' in text


def test_access_reviews(cluster: TestClient) -> None:
    """What one may do, asked instead of tried."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    allow_entry(cluster, "alice")
    grant(cluster, "alice", "get")
    alice = cluster.with_token("alice-token")

    def allowed(verb: str) -> bool:
        attributes = {"verb": verb, "resource": "configmaps", "namespace": "default"}
        reply = alice.post(path, {"spec": {"resourceAttributes": attributes}})
        assert reply.status == 201, reply
        return bool(reply.json["status"]["allowed"])

    eventually(lambda: alice.get(f"{MAPS}/x").status == 404)
    assert allowed("get")
    assert not allowed("delete")
    rules = alice.post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    ).json["status"]
    assert any(r["resources"] == ["configmaps"] and r["verbs"] == ["get"] for r in rules["resourceRules"])  # fmt: skip
    subject = {
        "spec": {"user": "alice", "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "default"}}
    }  # fmt: skip
    answer = cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", subject)
    assert answer.json["status"]["allowed"]


def test_static_tokens_and_anonymous(cluster: TestClient) -> None:
    """A file's users with their groups; nobody with a wrong token; anonymous without any."""
    review = "/apis/authentication.k8s.io/v1/tokenreviews"
    answer = cluster.post(review, {"spec": {"token": "alice-token"}}).json["status"]
    assert answer["user"]["username"] == "alice"
    assert {"devs", "testers"} <= set(answer["user"]["groups"])
    assert (
        not cluster.post(review, {"spec": {"token": "wrong"}}).json["status"].get("authenticated")
    )
    assert cluster.with_token("wrong").get(MAPS).status == 401
    text = message(cluster.with_token("").get(MAPS))
    assert 'User "system:anonymous" cannot list resource "configmaps"' in text


def test_service_account_tokens(shard: ServerProcess, cluster: TestClient) -> None:
    """A requested token speaks for its account in its own cluster and in no other."""
    name = cluster.prefix.rpartition("/")[2]
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    cluster.post(accounts, {"metadata": {"name": "robot"}})
    reply = cluster.post(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    assert reply.status == 201
    robot = cluster.with_token(reply.json["status"]["token"])
    text = message(robot.get(MAPS))
    assert 'User "system:serviceaccount:default:robot"' in text
    grant(cluster, "system:serviceaccount:default:robot", "list")
    eventually(lambda: robot.get(MAPS).status == 200)
    other = ready(make_cluster(shard, f"{name}-other"))
    assert other.with_token(reply.json["status"]["token"]).get(MAPS).status in {401, 403}


def test_token_secrets(cluster: TestClient) -> None:
    """A secret of the right type is filled with a token that works."""
    cluster.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "old"}})
    body = {
        "metadata": {
            "name": "old-token",
            "annotations": {"kubernetes.io/service-account.name": "old"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    secrets = "/api/v1/namespaces/default/secrets"
    assert cluster.post(secrets, body).status == 201
    data = eventually(lambda: cluster.get(f"{secrets}/old-token").json.get("data"))
    robot = cluster.with_token(base64.b64decode(data["token"]).decode())
    assert 'User "system:serviceaccount:default:old"' in message(robot.get(MAPS))


def certified(
    shard: ServerProcess, pair: KeyPair, directory: pathlib.Path, path: str, headers: dict[str, str]
) -> tuple[int, bytes]:
    """A request over a connection that shows a client certificate."""
    access = read_access(shard.kubeconfig, "shard-base")
    (directory / "client.crt").write_bytes(pair.certificate)
    (directory / "client.key").write_bytes(pair.key)
    context = ssl.create_default_context(cadata=access.ca)
    context.load_cert_chain(directory / "client.crt", directory / "client.key")
    connection = HTTPSConnection(access.host, access.port, timeout=30, context=context)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_client_certificates(
    shard: ServerProcess, cluster: TestClient, tmp_path: pathlib.Path
) -> None:
    """The common name is the user, organisations are groups; another CA's are nobody's."""
    now = time.time()
    ca = KeyPair(
        (shard.root / "client-ca.crt").read_bytes(), (shard.root / "client-ca.key").read_bytes()
    )
    path = cluster.prefix + MAPS
    master = issue_client(ca, "carol", ["system:masters"], now)
    assert certified(shard, master, tmp_path, path, {})[0] == 200
    plain = issue_client(ca, "carol", [], now)
    status, body = certified(shard, plain, tmp_path, path, {})
    assert status == 403
    assert b'User \\"carol\\" cannot list' in body
    foreign = issue_client(create_ca("foreign", now), "carol", ["system:masters"], now)
    assert certified(shard, foreign, tmp_path, path, {})[0] in {401, 403}


def test_trusted_proxies(shard: ServerProcess, cluster: TestClient, tmp_path: pathlib.Path) -> None:
    """Headers are believed of the proxy's certificate and name only."""
    now = time.time()
    home = shard.root.parent
    ca = KeyPair((home / "proxy-ca.crt").read_bytes(), (home / "proxy-ca.key").read_bytes())
    path = cluster.prefix + MAPS
    headers = {"X-Remote-User": "dave", "X-Remote-Group": "system:masters"}
    proxy = issue_client(ca, "front", [], now)
    assert certified(shard, proxy, tmp_path, path, {"X-Remote-User": "dave"})[0] == 403
    status, body = certified(shard, proxy, tmp_path, path, headers)
    assert b"dave" in body or status == 200
    stranger = issue_client(ca, "stranger", [], now)
    assert certified(shard, stranger, tmp_path, path, headers)[0] in {401, 403}
    assert cluster.with_token("").get(MAPS, headers=headers).status == 403
