"""Who users are, is decided at the proxy as far as it can be."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.testing.client import TestClient
from pykcp.testing.front_proxy import FrontProxyProcess, ProxyFiles, front_proxy
from pykcp.testing.issuer import AUDIENCE, TestIssuer
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace
from pykcp.types import Object

TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"
TOKEN_FILE = 'secret-1,alice,uid-1,"devs,system:masters"\nsecret-2,bob,uid-2\n'


@pytest.fixture(scope="module")
def files() -> Iterator[ProxyFiles]:
    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        yield ProxyFiles(pathlib.Path(temporary))


@pytest.fixture(scope="module")
def issuer() -> Iterator[TestIssuer]:
    made = TestIssuer("ES256")
    yield made
    made.close()


@pytest.fixture(scope="module")
def shard(files: ProxyFiles) -> Iterator[ServerProcess]:
    tokens = files.root / "shard-tokens.csv"
    tokens.write_text("only-shard,carol,uid-3\n")
    flags = [*files.shard_flags(), f"--token-auth-file={tokens}"]
    process = ServerProcess(files.root / "root", flags).start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def proxy(files: ProxyFiles, shard: ServerProcess) -> Iterator[FrontProxyProcess]:
    """It knows tokens and the keys of service accounts."""
    tokens = files.root / "tokens.csv"
    tokens.write_text(TOKEN_FILE)
    flags = (
        f"--token-auth-file={tokens}",
        f"--service-account-key-file={shard.root / 'sa.key'}",
        f"--requestheader-client-ca-file={files.proxy_ca}",
        "--feature-gates=WorkspaceAuthentication=true",
    )
    with front_proxy(files, shard, *flags) as process:
        yield process


@pytest.fixture(scope="module")
def plain(files: ProxyFiles, shard: ServerProcess) -> Iterator[FrontProxyProcess]:
    """It knows nothing but certificates."""
    with front_proxy(files, shard, name="plain") as process:
        yield process


def who(client: TestClient) -> Any:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = client.post(REVIEWS, review)
    return reply.json["status"]["userInfo"] if reply.status == 201 else reply.status


def test_tokens_of_a_file(proxy: FrontProxyProcess) -> None:
    alice = who(proxy.client(token="secret-1", cluster="root"))
    assert alice["username"] == "alice"
    assert alice["groups"] == ["devs", "system:authenticated"]  # masters only inside


def test_tokens_that_only_the_shard_knows_pass(
    proxy: FrontProxyProcess, plain: FrontProxyProcess
) -> None:
    for each in (proxy, plain):
        assert who(each.client(token="only-shard", cluster="root"))["username"] == "carol"
        assert who(each.client(token="nonsense", cluster="root")) == 401


def test_without_credentials(proxy: FrontProxyProcess, plain: FrontProxyProcess) -> None:
    assert who(proxy.client(cluster="root")) == 401  # one could sign in here
    assert (
        who(plain.client(cluster="root")) == 401
    )  # the shard says so: no user came with the proxy


def test_certificates_of_others_are_rejected(
    proxy: FrontProxyProcess, tmp_path: pathlib.Path
) -> None:
    stranger = ProxyFiles(tmp_path).user("alice", ["system:kcp:admin"])
    client = proxy.client("alice", cluster="root")
    client._ssl.load_cert_chain(stranger)
    assert who(client) == 401


def test_a_certificate_takes_precedence_over_a_token(proxy: FrontProxyProcess) -> None:
    client = proxy.client("dave", cluster="root", token="only-shard")
    assert who(client)["username"] == "dave"


def test_service_accounts(proxy: FrontProxyProcess, plain: FrontProxyProcess) -> None:
    root = proxy.admin("root")
    cluster = make_workspace(root, "robots")["spec"]["cluster"]
    inside = root.in_cluster("root:robots")
    reply = inside.post(TOKENS, {"spec": {"audiences": ["https://kcp.default.svc"]}})
    assert reply.status == 201, reply
    token = reply.json["status"]["token"]
    for each in (proxy, plain):
        robot = who(each.client(token=token, cluster="root:robots"))
        assert robot["username"] == "system:serviceaccount:default:default"
        assert robot["extra"]["authentication.kcp.io/cluster-name"] == [cluster]
        without_cluster = each.client(token=token)
        assert who(without_cluster)["username"] == "system:serviceaccount:default:default"


def test_another_proxy_may_name_users(proxy: FrontProxyProcess, files: ProxyFiles) -> None:
    client = proxy.client("unused", cluster="root")
    client._ssl.load_cert_chain(files.proxy)
    headers = {"X-Remote-User": "erin", "X-Remote-Group": "devs"}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = client.post(REVIEWS, review, headers=headers)
    assert reply.json["status"]["userInfo"]["username"] == "erin"
    assert client.post(REVIEWS, review).status == 401


def head(kind: str, name: str) -> Object:
    return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": kind, "metadata": {"name": name}}


def allow_everything(client: TestClient, group: str) -> None:
    made = client.post(
        f"/apis/{RBAC}/v1/clusterrolebindings",
        {
            "metadata": {"name": group},
            "subjects": [{"kind": "Group", "name": group, "apiGroup": RBAC}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": RBAC},
        },
    )
    assert made.status == 201


def test_issuers_of_workspace_types(
    proxy: FrontProxyProcess, plain: FrontProxyProcess, issuer: TestIssuer
) -> None:
    root = proxy.admin("root")
    entry = {
        "issuer": {
            "url": issuer.url,
            "certificateAuthority": issuer.ca,
            "audiences": [AUDIENCE],
            "audienceMatchPolicy": "MatchAny",
        },
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "corp:"},
            "groups": {"claim": "groups", "prefix": ""},
        },
    }
    configuration = {
        **head("WorkspaceAuthenticationConfiguration", "corp"),
        "spec": {"jwt": [entry]},
    }
    made = root.post(f"{TENANCY}/workspaceauthenticationconfigurations", configuration)
    assert made.status == 201, made
    corporate = {
        **head("WorkspaceType", "corporate"),
        "spec": {"authenticationConfigurations": [{"name": "corp"}]},
    }
    assert root.post(f"{TENANCY}/workspacetypes", corporate).status == 201
    made_workspace = make_workspace(root, "offices", type={"name": "corporate", "path": "root"})
    cluster = made_workspace["spec"]["cluster"]
    allow_everything(root.in_cluster("root:offices"), "devs")
    token = issuer.token(groups=["devs", "system:masters"])
    assert who(proxy.client(token=token, cluster="root:offices")) == {
        "username": "corp:alice",
        "groups": ["devs", "system:authenticated"],
        "extra": {
            "authentication.kcp.io/scopes": [f"cluster:{cluster}"],
            "authentication.kcp.io/cluster-name": [cluster],
        },
    }
    assert who(proxy.client(token=token, cluster="root")) == 401
    assert who(plain.client(token=token, cluster="root:offices")) == 401  # the feature is off
