"""Attempts to be somebody else or to get somewhere else, through the proxy and at the shard."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from pykcp.testing.client import Reply, TestClient
from pykcp.testing.front_proxy import FrontProxyProcess, ProxyFiles, front_proxy
from pykcp.testing.kubeconfig import Access
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
SECRETS = "/api/v1/namespaces/default/secrets"
RBAC = "rbac.authorization.k8s.io"


class Installation(NamedTuple):
    files: ProxyFiles
    shard: ServerProcess
    proxy: FrontProxyProcess

    def client(self, entry: str, user: str, groups: tuple[str, ...] = ()) -> TestClient:
        """A user with a certificate, through the proxy or at the shard."""
        if entry == "proxy":
            return self.proxy.client(user, groups)
        pair = str(self.files.user(user, groups))
        ca = self.files.serving_ca.read_text()
        return TestClient(
            Access("127.0.0.1", self.shard.port, "", ca, "", (pair, pair)),
            opened=self.proxy._opened,
        )


@pytest.fixture(scope="module")
def all_of_it() -> Iterator[Installation]:
    """With a workspace that alice may enter, and one that she may not."""
    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        files = ProxyFiles(pathlib.Path(temporary))
        shard = ServerProcess(files.root / "root", files.shard_flags()).start()
        try:
            with front_proxy(files, shard) as proxy:
                root = proxy.admin("root")
                for name in ("open", "closed"):
                    make_workspace(root, name)
                made = root.in_cluster("root:open").post(
                    f"/apis/{RBAC}/v1/clusterrolebindings",
                    {
                        "metadata": {"name": "alice"},
                        "subjects": [{"kind": "User", "name": "alice", "apiGroup": RBAC}],
                        "roleRef": {
                            "kind": "ClusterRole",
                            "name": "cluster-admin",
                            "apiGroup": RBAC,
                        },
                    },
                )
                assert made.status == 201
                yield Installation(files, shard, proxy)
        finally:
            shard.stop()


def who(client: TestClient, headers: dict[str, str]) -> Any:
    reply = client.post(f"/clusters/root:open{REVIEWS}", REVIEW, headers=headers)
    return reply.json["status"]["userInfo"] if reply.status == 201 else reply


INJECTED = [
    {"X-Remote-User": "kcp-admin", "X-Remote-Group": "system:masters"},
    {"x-remote-user": "kcp-admin", "x-remote-group": "system:kcp:admin"},
    {"X-REMOTE-USER": "system:admin", "X-Remote-Uid": "0"},
    {"X-Remote-Group": "system:masters"},
    {"X-Remote-Extra-Authorization.kcp.io%2Fwarrant": '{"user":"x","groups":["system:masters"]}'},
    {"X-Remote-Extra-authentication.kcp.io%2fscopes": "cluster:root"},
    {"X_Remote_User": "kcp-admin", "X_Remote_Group": "system:masters"},
    {"Connection": "X-Remote-User, X-Remote-Group", "X-Remote-User": "kcp-admin"},
    {"X-Pykcp-Routed": "1", "X-Pykcp-Virtual-Workspaces": "1"},
    {"X-Kcp-Internal-Deep-SubjectAccessReview": "true"},
]


@pytest.mark.parametrize("entry", ["proxy", "shard"])
@pytest.mark.parametrize("headers", INJECTED, ids=str)
def test_headers_make_nobody_else_of_a_user(
    all_of_it: Installation, entry: str, headers: dict[str, str]
) -> None:
    user = who(all_of_it.client(entry, "alice"), headers)
    assert user["username"] == "alice"
    assert user["groups"] == ["system:authenticated"]
    assert set(user.get("extra", {})) <= {"authentication.kubernetes.io/credential-id"}
    assert not user.get("uid")
    closed = all_of_it.client(entry, "alice").get(
        f"/clusters/root:closed{SECRETS}", headers=headers
    )
    assert closed.status == 403


@pytest.mark.parametrize("entry", ["proxy", "shard"])
@pytest.mark.parametrize("headers", INJECTED, ids=str)
def test_headers_make_nobody_of_a_stranger(
    all_of_it: Installation, entry: str, headers: dict[str, str]
) -> None:
    client = all_of_it.client(entry, "alice")
    port = all_of_it.proxy.port if entry == "proxy" else all_of_it.shard.port
    ca = all_of_it.files.serving_ca.read_text()
    stranger = TestClient(Access("127.0.0.1", port, "", ca, ""), opened=client._opened)
    for path in (
        f"/clusters/root:open{SECRETS}",
        f"/clusters/root{SECRETS}",
        "/services/where?path=root",
    ):
        assert stranger.get(path, headers=headers).status in (401, 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-User": "kcp-admin"},
        {"Impersonate-User": "x", "Impersonate-Group": "system:masters"},
        {"Impersonate-User": "x", "Impersonate-Group": "system:kcp:logical-cluster-admin"},
    ],
    ids=str,
)
@pytest.mark.parametrize("entry", ["proxy", "shard"])
def test_impersonation_is_decided_by_the_shard(
    all_of_it: Installation, entry: str, headers: dict[str, str]
) -> None:
    client = all_of_it.client(entry, "alice")
    assert client.get(f"/clusters/root:closed{SECRETS}", headers=headers).status == 403


@pytest.mark.parametrize(
    "group",
    [
        "system:masters",
        "system:kcp:logical-cluster-admin",
        "system:kcp:initializer:root:organization",
        "system:kcp:terminator:root:organization",
    ],
)
def test_groups_of_servers_are_dropped(all_of_it: Installation, group: str) -> None:
    mallory = all_of_it.client("proxy", "mallory", (group, "team"))
    assert mallory.get(f"/clusters/root:closed{SECRETS}").status == 403
    assert mallory.get("/services/where?path=root").status == 403
    alice = all_of_it.client("proxy", "alice", (group, "team"))
    assert who(alice, {})["groups"] == ["system:authenticated", "team"]


PATHS = [
    ("/clusters/*/api/v1/secrets", {403}, {403}),
    ("/clusters/%2A/api/v1/secrets", {403}, {403}),
    ("/clusters/root:open/clusters/root:closed" + SECRETS, {404}, {404}),
    ("/clusters/root:open/../root:closed" + SECRETS, {400}, {403, 404}),
    ("/clusters/root:open/%2e%2e/root:closed" + SECRETS, {400}, {403, 404}),
    ("/clusters/root:open/./" + SECRETS, {400}, {403, 404}),
    ("/clusters/root:open%2Froot:closed" + SECRETS, {403}, {403, 404}),
    ("/clusters/root:open%2F..%2Froot:closed" + SECRETS, {403}, {403, 404}),
    ("/clusters%2Froot:closed" + SECRETS, {404}, {403, 404}),
    ("//clusters/root:closed" + SECRETS, {404}, {403, 404}),
    ("/clusters//root:closed" + SECRETS, {403, 404}, {403, 404}),
    ("/clusters/root:closed/" + SECRETS, {403, 404}, {403, 404}),
    ("/clusters/ROOT:closed" + SECRETS, {403}, {400, 403}),
    ("/clusters/root:closed%00" + SECRETS, {403}, {400, 403}),
    ("/clusters/root:closed%0d%0aX-Remote-User:%20x" + SECRETS, {403}, {400, 403}),
    ("/clusters/system:admin" + SECRETS, {403}, {403}),
    ("/clusters/system:masters:x" + SECRETS, {403}, {403}),
    ("/clusters/user:kcp-admin" + SECRETS, {403}, {403, 404}),
    ("/services/where?path=root", {403}, {403}),
    ("/services/where?since=0", {403}, {403}),
    ("/services/../clusters/root:closed" + SECRETS, {400}, {400, 403, 404}),
    ("/services/cache/shards/root/clusters/root" + SECRETS, {403, 404}, {403, 404}),
    ("/metrics", {403}, {403}),
    ("/debug/tasks", {404}, {403}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "by_proxy", "by_shard"), PATHS, ids=[p[0] for p in PATHS])
def test_paths_lead_nowhere_else(
    all_of_it: Installation, path: str, by_proxy: set[int], by_shard: set[int]
) -> None:
    replies: dict[str, Reply] = {}
    for entry, expected in (("proxy", by_proxy), ("shard", by_shard)):
        replies[entry] = all_of_it.client(entry, "alice").get(path)
        assert replies[entry].status in expected, (entry, replies[entry])
        assert b'"items"' not in replies[entry].body


@pytest.mark.parametrize("entry", ["proxy", "shard"])
def test_what_exists_and_what_does_not_look_alike(all_of_it: Installation, entry: str) -> None:
    """Alice may see neither."""
    make_workspace(all_of_it.proxy.admin("root:closed"), f"inner-{entry}")
    alice = all_of_it.client(entry, "alice")
    replies = [
        alice.get(f"/clusters/root:closed:{name}{SECRETS}", headers={"X-Pykcp-Routed": "1"})
        for name in (f"inner-{entry}", "nowhere")
    ]
    assert [reply.status for reply in replies] == [403, 403]
    assert replies[0].body == replies[1].body
    names = [sorted(name.lower() for name, _ in reply.headers) for reply in replies]
    assert names[0] == names[1]
