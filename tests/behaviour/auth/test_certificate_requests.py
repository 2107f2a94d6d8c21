"""CertificateSigningRequests: asking, approving, signing, and who may do which."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from pykcp.auth.certificates import create_ca
from pykcp.testing.client import Reply, TestClient
from pykcp.testing.server import ServerProcess

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


def pem_request(*organizations: str) -> str:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "someone")]
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder(x509.Name(names))
    signed = builder.sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()


def ask(
    client: TestClient, name: str, signer: str = "example.com/serving", *organizations: str
) -> Reply:
    return client.post(
        REQUESTS,
        {
            "metadata": {"name": name},
            "spec": {
                "request": pem_request(*organizations),
                "signerName": signer,
                "usages": ["client auth"],
            },
        },
    )


@pytest.fixture(scope="module")
def root(shard: ServerProcess) -> TestClient:
    return shard.client(cluster="root")


@pytest.fixture
def user_with(root: TestClient) -> Callable[..., dict[str, str]]:
    """Headers of a user with the right to write the subresource, and to a verb on signers."""

    def make(name: str, subresource: str, verb: str, *signers: str) -> dict[str, str]:
        rules: list[dict[str, Any]] = [
            {"nonResourceURLs": ["/"], "verbs": ["access"]},
            {
                "apiGroups": ["certificates.k8s.io"],
                "resources": [f"certificatesigningrequests/{subresource}"],
                "verbs": ["update", "patch"],
            },
        ]
        if signers:
            rules.append(
                {
                    "apiGroups": ["certificates.k8s.io"],
                    "resources": ["signers"],
                    "resourceNames": list(signers),
                    "verbs": [verb],
                }
            )
        root.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        group = "rbac.authorization.k8s.io"
        made = root.post(
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
            },
        )
        assert made.status == 201, made
        return {"Impersonate-User": name}

    return make


def decide(root: TestClient, name: str, who: dict[str, str], kind: str = "Approved") -> Reply:
    found = root.get(f"{REQUESTS}/{name}").json
    found.setdefault("status", {})["conditions"] = [
        {"type": kind, "status": "True", "reason": "Test", "message": "by a test"}
    ]
    return root.put(f"{REQUESTS}/{name}/approval", found, headers=who)


def issue(root: TestClient, name: str, who: dict[str, str]) -> Reply:
    found = root.get(f"{REQUESTS}/{name}").json
    certificate = create_ca("issued", 1_800_000_000.0).certificate
    found.setdefault("status", {})["certificate"] = base64.b64encode(certificate).decode()
    return root.put(f"{REQUESTS}/{name}/status", found, headers=who)


def test_from_the_request_to_the_certificate(
    root: TestClient, user_with: Callable[..., dict[str, str]]
) -> None:
    made = ask(root, "whole")
    assert made.status == 201, made
    approver = user_with("approver", "approval", "approve", "example.com/serving")
    approved = decide(root, "whole", approver)
    assert approved.status == 200, approved
    (condition,) = approved.json["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Approved", "True")
    assert condition["lastUpdateTime"]
    signer = user_with("signer", "status", "sign", "example.com/serving")
    signed = issue(root, "whole", signer)
    assert signed.status == 200, signed
    assert signed.json["status"]["certificate"]


def test_the_right_to_the_subresource_is_not_enough(
    root: TestClient, user_with: Callable[..., dict[str, str]]
) -> None:
    assert ask(root, "guarded").status == 201
    for verb, subresource, act in (("approve", "approval", decide), ("sign", "status", issue)):
        for name, signers in (
            (f"no-{verb}", ()),
            (f"other-{verb}", ("example.com/client", "example.org/*")),
        ):
            refused = act(root, "guarded", user_with(name, subresource, verb, *signers))
            assert refused.status == 403
            assert refused.json["message"] == (
                'certificatesigningrequests.certificates.k8s.io "guarded" is forbidden: user not '
                f'permitted to {verb} requests with signerName "example.com/serving"'
            )


def test_all_signers_of_a_domain(
    root: TestClient, user_with: Callable[..., dict[str, str]]
) -> None:
    assert ask(root, "by-domain").status == 201
    approver = user_with("domain-approver", "approval", "approve", "example.com/*")
    assert decide(root, "by-domain", approver, "Denied").status == 200


def test_the_signer_that_counts_is_the_stored_one(
    root: TestClient, user_with: Callable[..., dict[str, str]]
) -> None:
    assert ask(root, "renamed").status == 201
    found = root.get(f"{REQUESTS}/renamed").json
    found["spec"]["signerName"] = "example.org/mine"
    found["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}
    who = user_with("own-signer", "approval", "approve", "example.org/mine")
    assert root.put(f"{REQUESTS}/renamed/approval", found, headers=who).status == 403


def test_a_status_that_says_nothing_new_needs_no_signer(
    root: TestClient, user_with: Callable[..., dict[str, str]]
) -> None:
    assert ask(root, "untouched").status == 201
    who = user_with("bystander", "status", "sign")
    found = root.get(f"{REQUESTS}/untouched").json
    assert root.put(f"{REQUESTS}/untouched/status", found, headers=who).status == 200


def test_approval_cannot_come_by_the_main_door(root: TestClient) -> None:
    assert ask(root, "sneaky").status == 201
    found = root.get(f"{REQUESTS}/sneaky").json
    found["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}
    assert not root.put(f"{REQUESTS}/sneaky", found).json.get("status", {}).get("conditions")
    refused = root.put(f"{REQUESTS}/sneaky/status", found)
    assert refused.status == 422
    assert "updates may not add a condition of type" in refused.json["message"]


def test_nobody_becomes_a_master_by_certificate(root: TestClient) -> None:
    refused = ask(root, "master", CLIENT_SIGNER, "dev", "system:masters")
    assert refused.status == 403
    assert refused.json["message"] == (
        'certificatesigningrequests.certificates.k8s.io "master" is forbidden: use of '
        f"{CLIENT_SIGNER} signer with system:masters group is not allowed"
    )
    assert ask(root, "member", CLIENT_SIGNER, "dev").status == 201
    assert ask(root, "elsewhere", "example.com/other", "system:masters").status == 201


def test_what_is_no_request_is_refused(root: TestClient) -> None:
    for text in (b"", b"nonsense", b"-----BEGIN CERTIFICATE REQUEST-----\nAA\n"):
        made = root.post(
            REQUESTS,
            {
                "metadata": {"name": "broken"},
                "spec": {
                    "request": base64.b64encode(text).decode(),
                    "signerName": CLIENT_SIGNER,
                    "usages": ["client auth"],
                },
            },
        )
        assert made.status == 422, made
