"""Service-account tokens and the objects they depend on."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pykcp.auth import certificates
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.service_account import LEEWAY, BoundTokens, SecretTokens
from pykcp.auth.claims import LEGACY_ISSUER, bound_claims, cluster_of_token, legacy_claims
from pykcp.auth.tokens import TokenSigner, TokenVerifier, encode_part

NOW = 1_800_000_000.0
ISSUER = "https://kcp.default.svc"
ACCOUNT = {"metadata": {"name": "bot", "namespace": "ns", "uid": "u1"}}
SECRET = {"metadata": {"name": "s", "namespace": "ns", "uid": "u2"}}
DELETED = {"deletionTimestamp": "2027-01-15T07:58:00Z"}  # two minutes before NOW
DELETING = {"deletionTimestamp": "2027-01-15T07:59:30Z"}

Objects = dict[str, Any]


class Known:
    """Service accounts and secrets of one namespace in one cluster."""

    def __init__(self) -> None:
        self.accounts: dict[str, Objects] = {"bot": ACCOUNT}
        self.secrets: dict[str, Objects] = {"s": SECRET}

    async def service_account(self, cluster: str, namespace: str, name: str) -> Objects | None:
        return self.accounts.get(name) if (cluster, namespace) == ("c1", "ns") else None

    async def secret(self, cluster: str, namespace: str, name: str) -> Objects | None:
        return self.secrets.get(name) if (cluster, namespace) == ("c1", "ns") else None


@pytest.fixture(scope="module")
def key() -> bytes:
    return certificates.key_pem(certificates._generate_key("ec"))


@pytest.fixture
def objects() -> Known:
    return Known()


@pytest.fixture
def signer(key: bytes) -> TokenSigner:
    return TokenSigner(key, ISSUER)


@pytest.fixture
def bound(signer: TokenSigner, objects: Known) -> BoundTokens:
    return BoundTokens([ISSUER], TokenVerifier([signer.verification_key]), [ISSUER], objects)


def claims(**changes: Any) -> dict[str, Any]:
    made = bound_claims(
        ACCOUNT, "c1", audiences=[ISSUER], now=NOW, expiration_seconds=3600, token_id="id1",
        secret=changes.pop("secret", None),
    )  # fmt: skip
    private = {**made["kubernetes.io"], **changes.pop("private", {})}
    return {**made, "kubernetes.io": private, **changes}


def test_the_claims_are_kcps() -> None:
    assert claims(secret=SECRET) == {
        "aud": [ISSUER],
        "exp": NOW + 3600,
        "iat": NOW,
        "nbf": NOW,
        "jti": "id1",
        "kubernetes.io": {
            "clusterName": "c1",
            "namespace": "ns",
            "serviceaccount": {"name": "bot", "uid": "u1"},
            "secret": {"name": "s", "uid": "u2"},
        },
        "sub": "system:serviceaccount:ns:bot",
    }


@pytest.mark.parametrize("secret", [None, SECRET])
async def test_a_bound_token_is_its_service_account(
    bound: BoundTokens, signer: TokenSigner, secret: Any
) -> None:
    found = await bound.authenticate(signer.sign(claims(secret=secret)), [], "elsewhere", NOW)
    assert found is not None
    assert found.user.to_json() == {
        "username": "system:serviceaccount:ns:bot",
        "uid": "u1",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:ns"],
        "extra": {
            "authentication.kcp.io/cluster-name": ["c1"],
            "authentication.kcp.io/scopes": ["cluster:c1"],
            "authentication.kubernetes.io/credential-id": ["JTI=id1"],
        },
    }
    assert found.audiences == (ISSUER,)
    assert found.expires == NOW + 3600 + LEEWAY


@pytest.mark.parametrize(
    ("changes", "later", "error"),
    [
        ({}, 3600 + LEEWAY, None),
        ({}, 3600 + LEEWAY + 1, "service account token has expired"),
        ({}, -LEEWAY, None),
        ({}, -LEEWAY - 1, "service account token is not valid yet"),
        ({"nbf": 0}, -LEEWAY - 1, "service account token is issued in the future"),
        ({"exp": 0, "nbf": None}, 10**9, None),
        ({"exp": "soon"}, 0, "service account token claims could not be validated"),
        ({"exp": True}, 0, "service account token claims could not be validated"),
        ({"exp": NOW + 0.5}, 0, None),
    ],
)
async def test_tokens_have_their_time(
    bound: BoundTokens, signer: TokenSigner, changes: Any, later: float, error: str | None
) -> None:
    await check(bound, signer.sign(claims(**changes)), NOW + later, error)


async def check(tokens: Any, token: str, now: float, error: str | None) -> None:
    if error is None:
        assert await tokens.authenticate(token, [], "", now) is not None
        return
    with pytest.raises(CredentialRejected) as caught:
        await tokens.authenticate(token, [], "", now)
    assert str(caught.value) == error


def changed(obj: Objects, **metadata: Any) -> Objects:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


@pytest.mark.parametrize(
    ("account", "secret", "error"),
    [
        (ACCOUNT, SECRET, None),
        (None, SECRET, 'serviceaccounts "bot" not found'),
        (changed(ACCOUNT, uid="new"), SECRET,
         "service account UID (new) does not match claim (u1)"),
        (changed(ACCOUNT, **DELETED), SECRET, "service account ns/bot has been deleted"),
        (changed(ACCOUNT, **DELETING), SECRET, None),
        (ACCOUNT, None, "service account token has been invalidated"),
        (ACCOUNT, changed(SECRET, uid="new"),
         "secret UID (new) does not match service account secret ref claim (u2)"),
        (ACCOUNT, changed(SECRET, **DELETED), "service account token has been invalidated"),
        (ACCOUNT, changed(SECRET, **DELETING), None),
    ],
)  # fmt: skip
async def test_a_bound_token_ends_with_its_objects(
    bound: BoundTokens, signer: TokenSigner, objects: Known, account: Any, secret: Any,
    error: str | None,
) -> None:  # fmt: skip
    objects.accounts = {"bot": account} if account else {}
    objects.secrets = {"s": secret} if secret else {}
    await check(bound, signer.sign(claims(secret=SECRET)), NOW, error)


@pytest.mark.parametrize("private", [{"pod": {"name": "p"}}, {"node": {"name": "n"}}])
async def test_there_are_neither_pods_nor_nodes(
    bound: BoundTokens, signer: TokenSigner, private: Any
) -> None:
    token = signer.sign(claims(private=private))
    await check(bound, token, NOW, "service account token has been invalidated")


async def test_without_lookup_the_claims_are_believed(signer: TokenSigner) -> None:
    tokens = BoundTokens([ISSUER], TokenVerifier([signer.verification_key]), [ISSUER], None)
    private = {"pod": {"name": "p", "uid": "1"}, "node": {"name": "n", "uid": "2"}}
    found = await tokens.authenticate(signer.sign(claims(private=private)), [], "", NOW)
    assert found is not None
    extra = {key.partition("/")[2]: value for key, value in found.user.extra.items()}
    assert extra["pod-name"] == ("p",)
    assert extra["node-uid"] == ("2",)


async def test_a_token_of_another_cluster_is_looked_up_there(
    bound: BoundTokens, signer: TokenSigner
) -> None:
    token = signer.sign(claims(private={"clusterName": "c2"}))
    await check(bound, token, NOW, 'serviceaccounts "bot" not found')


@pytest.mark.parametrize(
    ("held", "requested", "common"),
    [
        ([ISSUER], [], (ISSUER,)),
        (ISSUER, [], (ISSUER,)),
        ([], [], (ISSUER,)),
        (["x", ISSUER], ["x"], ("x",)),
        (["vault"], [], ('token audiences ["vault"] is invalid for the target audiences '
                        '["https://kcp.default.svc"]')),
        ([ISSUER], ["a", "b"], ('token audiences ["https://kcp.default.svc"] is invalid for the '
                               'target audiences ["a" "b"]')),
    ],
)  # fmt: skip
async def test_audiences(
    bound: BoundTokens, signer: TokenSigner, held: Any, requested: list[str], common: Any
) -> None:
    token = signer.sign(claims(aud=held))
    if isinstance(common, str):
        with pytest.raises(CredentialRejected) as caught:
            await bound.authenticate(token, requested, "", NOW)
        assert str(caught.value) == common
    else:
        found = await bound.authenticate(token, requested, "", NOW)
        assert found is not None
        assert found.audiences == common


async def test_other_issuers_tokens_are_not_our_business(bound: BoundTokens, key: bytes) -> None:
    foreign = TokenSigner(key, "https://other").sign(claims())
    assert await bound.authenticate(foreign, [], "", NOW) is None
    assert await bound.authenticate("opaque", [], "", NOW) is None


async def test_a_forged_token_in_our_name_is_refused(bound: BoundTokens) -> None:
    forger = TokenSigner(certificates.key_pem(certificates._generate_key("ec")), ISSUER)
    await check(bound, forger.sign(claims()), NOW, "invalid signature, no keys found")


@pytest.mark.parametrize("private", [None, "x", {}, {"serviceaccount": "bot"}, {"namespace": 1}])
async def test_claims_of_the_wrong_shape_name_nobody(
    bound: BoundTokens, signer: TokenSigner, private: Any
) -> None:
    token = signer.sign({**claims(), "kubernetes.io": private})
    await check(bound, token, NOW, 'serviceaccounts "" not found')


# --- tokens in secrets --------------------------------------------------------


@pytest.fixture
def legacy_signer(key: bytes) -> TokenSigner:
    return TokenSigner(key, LEGACY_ISSUER)


@pytest.fixture
def token(legacy_signer: TokenSigner) -> str:
    return legacy_signer.sign(legacy_claims(ACCOUNT, SECRET, "c1"))


def holding(token: str, **metadata: Any) -> Objects:
    data = {"token": base64.b64encode(token.encode()).decode()}
    return {**changed(SECRET, **metadata), "data": data}


@pytest.fixture
def used() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def legacy(signer: TokenSigner, objects: Known, used: list[tuple[str, str]]) -> SecretTokens:
    return SecretTokens(
        TokenVerifier([signer.verification_key]), [ISSUER], objects,
        lambda cluster, secret: used.append((cluster, secret["metadata"]["name"])),
    )  # fmt: skip


async def test_a_secrets_token_is_its_service_account(
    legacy: SecretTokens, objects: Known, token: str, used: list[tuple[str, str]]
) -> None:
    objects.secrets["s"] = holding(token)
    found = await legacy.authenticate(token, [], "", NOW)
    assert found is not None
    assert found.user.name == "system:serviceaccount:ns:bot"
    assert found.user.extra["authentication.kcp.io/cluster-name"] == ("c1",)
    assert found.audiences == (ISSUER,)
    assert found.warnings == ()
    assert used == [("c1", "s")]


async def test_an_auto_generated_token_is_warned_of(
    legacy: SecretTokens, objects: Known, token: str
) -> None:
    objects.secrets["s"] = holding(token)
    objects.accounts["bot"] = {**ACCOUNT, "secrets": [{"name": "s"}]}
    found = await legacy.authenticate(token, [], "", NOW)
    assert found is not None
    assert found.warnings[0].startswith("Use tokens from the TokenRequest API")


@pytest.mark.parametrize(
    ("account", "secret", "error"),
    [
        (ACCOUNT, None, "Token has been invalidated"),
        (ACCOUNT, DELETING, "Token has been invalidated"),
        (ACCOUNT, "another token", "Token does not match server's copy"),
        (ACCOUNT, "", "Token does not match server's copy"),
        (None, {}, 'serviceaccounts "bot" not found'),
        (changed(ACCOUNT, **DELETING), {}, "ServiceAccount ns/bot has been deleted"),
        (changed(ACCOUNT, uid="new"), {}, "ServiceAccount UID (new) does not match claim (u1)"),
        (ACCOUNT, {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}},
         ("the token in secret ns/s for service account ns/bot has been marked invalid. Use tokens "
         "from the TokenRequest API or manually created secret-based tokens, or remove the "
         "'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow "
         "use of this token")),
    ],
)  # fmt: skip
async def test_a_secrets_token_ends_with_its_objects(
    legacy: SecretTokens, objects: Known, token: str, account: Any, secret: Any, error: str
) -> None:
    objects.accounts = {"bot": account} if account else {}
    if secret is None:
        objects.secrets = {}
    elif isinstance(secret, str):
        objects.secrets["s"] = holding(secret)
    else:
        objects.secrets["s"] = holding(token, **secret)
    await check(legacy, token, NOW, error)


@pytest.mark.parametrize(
    ("claim", "value", "error"),
    [
        ("sub", "", "sub claim is missing"),
        ("sub", "system:serviceaccount:ns:other", "sub claim is invalid"),
        ("sub", "bot", "sub claim is invalid"),
        ("kubernetes.io/serviceaccount/namespace", "", "namespace claim is missing"),
        ("kubernetes.io/serviceaccount/secret.name", None, "secretName claim is missing"),
        ("kubernetes.io/serviceaccount/service-account.name", 1,
         "serviceAccountName claim is missing"),
        ("kubernetes.io/serviceaccount/service-account.uid", "",
         "serviceAccountUID claim is missing"),
    ],
)  # fmt: skip
async def test_a_secrets_token_must_say_everything(
    legacy: SecretTokens, legacy_signer: TokenSigner, claim: str, value: Any, error: str
) -> None:
    token = legacy_signer.sign({**legacy_claims(ACCOUNT, SECRET, "c1"), claim: value})
    await check(legacy, token, NOW, error)


def test_the_cluster_is_read_for_routing(signer: TokenSigner, token: str) -> None:
    assert cluster_of_token(signer.sign(claims())) == "c1"
    assert cluster_of_token(token) == "c1"
    assert cluster_of_token("opaque") == ""
    assert cluster_of_token(f"a.{encode_part(b'{}')}.b") == ""


async def test_many_audiences_of_a_token_and_of_a_review(
    bound: BoundTokens, signer: TokenSigner
) -> None:
    held = [f"a{number}" for number in range(20_000)]
    token = signer.sign(claims(aud=held))
    wanted = [f"b{number}" for number in range(100_000)]
    found = await bound.authenticate(token, [*wanted, held[-1]], "c", NOW)
    assert found is not None
    assert found.audiences == (held[-1],)
    with pytest.raises(CredentialRejected) as caught:
        await bound.authenticate(token, wanted, "c", NOW)
    assert len(str(caught.value)) < 1000
