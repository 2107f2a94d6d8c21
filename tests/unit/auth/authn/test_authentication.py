"""The union: who wins, who is refused, and what is remembered."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pykcp.auth import certificates
from pykcp.auth.authn.anonymous import Anonymous
from pykcp.auth.authn.bearer import without_token_protocol
from pykcp.auth.authn.chain import TOKEN_TTL, Authentication
from pykcp.auth.authn.interface import Authenticated, CredentialRejected
from pykcp.auth.authn.request_header import RequestHeaders
from pykcp.auth.authn.static_tokens import parse_token_file
from pykcp.auth.authn.x509 import CertificateVerifier, ClientCertificates
from pykcp.auth.certificates import KeyPair
from pykcp.auth.tokens import MAX_TOKEN
from pykcp.auth.user import User
from pykcp.machinery.status import Unauthorized

NOW = 1_800_000_000.0


class CountingTokens:
    """Knows one token, refuses another, and counts the questions."""

    def __init__(self, expires: float = float("inf"), is_portable: bool = True) -> None:
        self.questions = 0
        self.expires, self.is_portable = expires, is_portable

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        self.questions += 1
        if token == "refused":
            raise CredentialRejected("token has expired")
        if token != "good":
            return None
        return Authenticated(User("bearer"), expires=self.expires, is_portable=self.is_portable)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens() -> CountingTokens:
    return CountingTokens()


@pytest.fixture
def chain(client_ca: KeyPair, clock: Clock, tokens: CountingTokens) -> Authentication:
    return Authentication(
        clock=clock,
        admin=parse_token_file("admin,root,1,system:masters", "f").authenticator([]),
        certificates=ClientCertificates(CertificateVerifier(client_ca.certificate)),
        tokens=[tokens],
        anonymous=Anonymous(),
    )


@pytest.fixture
def alice(client_ca: KeyPair, to_der: Callable[[KeyPair], bytes]) -> bytes:
    return to_der(certificates.issue_client(client_ca, "alice", [], NOW))


@pytest.fixture
def stranger(to_der: Callable[[KeyPair], bytes]) -> bytes:
    other = certificates.create_ca("other", NOW)
    return to_der(certificates.issue_client(other, "stranger", [], NOW))


@pytest.mark.parametrize(
    ("authorization", "certificate", "expected"),
    [
        (None, None, "system:anonymous"),
        ("Basic x", None, "system:anonymous"),
        ("Bearer", None, "system:anonymous"),
        ("Bearer  good", None, "system:anonymous"),
        ("Bearer good", None, "bearer"),
        ("bearer good", None, "bearer"),
        (" Bearer good trailing", None, "bearer"),
        ("Bearer admin", None, "root"),
        ("Bearer unknown", None, None),
        ("Bearer refused", None, None),
        (None, "alice", "alice"),
        ("Bearer good", "alice", "alice"),
        ("Bearer admin", "alice", "root"),
        ("Bearer unknown", "alice", "alice"),
        (None, "stranger", None),
        ("Bearer good", "stranger", "bearer"),
    ],
)
async def test_precedence(
    chain: Authentication,
    make_request: Any,
    request: pytest.FixtureRequest,
    authorization: str | None,
    certificate: str | None,
    expected: str | None,
) -> None:
    der = None if certificate is None else request.getfixturevalue(certificate)
    headers = [] if authorization is None else [("authorization", authorization)]
    asked = make_request(*headers, certificate=der)
    if expected is None:
        with pytest.raises(Unauthorized) as caught:
            await chain.authenticate(asked)
        assert caught.value.to_json()["message"] == "Unauthorized"
        assert caught.value.code == 401
    else:
        assert (await chain.authenticate(asked)).user.name == expected


async def test_bearers_are_authenticated(chain: Authentication, make_request: Any) -> None:
    found = await chain.authenticate(make_request(("authorization", "Bearer good")))
    assert found.user.groups == ("system:authenticated",)


async def test_a_connection_proves_itself_once(
    chain: Authentication, make_request: Any, tokens: CountingTokens, clock: Clock
) -> None:
    asked = make_request(("authorization", "Bearer good"))
    assert chain.peek(asked) is None
    await chain.authenticate(asked)
    again = make_request(("authorization", "Bearer good"), peer=asked.peer)
    assert chain.peek(again) == User("bearer", groups=("system:authenticated",))
    clock.now += TOKEN_TTL
    assert chain.peek(again) is None
    assert tokens.questions == 1


@pytest.mark.parametrize("header", [None, "Bearer other", "Bearer good "])
async def test_other_credentials_on_the_same_connection_are_looked_at(
    chain: Authentication, make_request: Any, header: str | None
) -> None:
    asked = make_request(("authorization", "Bearer good"))
    await chain.authenticate(asked)
    headers = [] if header is None else [("authorization", header)]
    assert chain.peek(make_request(*headers, peer=asked.peer)) is None


async def test_another_chain_does_not_believe_what_this_one_proved(
    chain: Authentication, make_request: Any, clock: Clock
) -> None:
    asked = make_request(("authorization", "Bearer good"))
    await chain.authenticate(asked)
    assert Authentication(clock=clock).peek(asked) is None


async def test_a_certificate_is_remembered_while_it_is_valid(
    chain: Authentication, make_request: Any, alice: bytes, clock: Clock
) -> None:
    asked = make_request(certificate=alice)
    await chain.authenticate(asked)
    clock.now += 86400
    known = chain.peek(asked)
    assert known is not None
    assert known.name == "alice"
    clock.now += 400 * 86400
    assert chain.peek(asked) is None


async def test_anonymous_requests_are_not_remembered(
    chain: Authentication, make_request: Any
) -> None:
    asked = make_request()
    await chain.authenticate(asked)
    assert chain.peek(asked) is None


async def test_tokens_are_remembered_across_connections_but_not_for_long(
    chain: Authentication, make_request: Any, tokens: CountingTokens, clock: Clock
) -> None:
    for later, questions in ((0, 1), (1, 1), (TOKEN_TTL, 2)):
        clock.now = NOW + later
        await chain.authenticate(make_request(("authorization", "Bearer good")))
        assert tokens.questions == questions
    chain.forget()
    await chain.authenticate(make_request(("authorization", "Bearer good")))
    assert tokens.questions == 3


async def test_refused_tokens_are_asked_for_every_time(
    chain: Authentication, make_request: Any, tokens: CountingTokens
) -> None:
    for _ in range(2):
        with pytest.raises(Unauthorized):
            await chain.authenticate(make_request(("authorization", "Bearer refused")))
    assert tokens.questions == 2


async def test_a_token_is_not_remembered_beyond_its_own_end(
    make_request: Any, clock: Clock
) -> None:
    tokens = CountingTokens(expires=NOW + 3)
    chain = Authentication(clock=clock, tokens=[tokens])
    asked = make_request(("authorization", "Bearer good"))
    await chain.authenticate(asked)
    clock.now += 3
    assert chain.peek(asked) is None
    await chain.authenticate(asked)
    assert tokens.questions == 2


async def test_tokens_that_mean_something_in_one_cluster_only_are_not_remembered(
    make_request: Any, clock: Clock
) -> None:
    tokens = CountingTokens(is_portable=False)
    chain = Authentication(clock=clock, tokens=[tokens])
    asked = make_request(("authorization", "Bearer good"))
    await chain.authenticate(asked)
    await chain.authenticate(asked)
    assert chain.peek(asked) is None
    assert tokens.questions == 2


async def test_a_proxys_connection_carries_many_users(
    client_ca: KeyPair, clock: Clock, make_request: Any, to_der: Callable[[KeyPair], bytes]
) -> None:
    verifier = CertificateVerifier(client_ca.certificate)
    chain = Authentication(
        clock=clock, proxy=RequestHeaders(verifier), certificates=ClientCertificates(verifier)
    )
    der = to_der(certificates.issue_client(client_ca, "front-proxy", [], NOW))
    itself = make_request(certificate=der)
    assert (await chain.authenticate(itself)).user.name == "front-proxy"
    for name in ("a", "b"):
        asked = make_request(("x-remote-user", name), peer=itself.peer)
        assert chain.peek(asked) is None
        assert (await chain.authenticate(asked)).user.name == name


async def test_users_of_a_proxys_connection_are_remembered_by_their_headers(
    client_ca: KeyPair, clock: Clock, make_request: Any, to_der: Callable[[KeyPair], bytes]
) -> None:
    verifier = CertificateVerifier(client_ca.certificate)
    chain = Authentication(clock=clock, proxy=RequestHeaders(verifier))
    der = to_der(certificates.issue_client(client_ca, "front-proxy", [], NOW))
    headers = (("x-remote-user", "alice"), ("x-remote-group", "team"))
    first = make_request(*headers, certificate=der)
    alice = (await chain.authenticate(first)).user
    peer = first.peer
    assert chain.peek(make_request(("accept", "x"), *headers, peer=peer)) == alice
    others = [
        (("x-remote-user", "bob"), headers[1]),
        (headers[0], ("x-remote-group", "admins")),
        (*headers, ("x-remote-group", "admins")),
        (*headers, ("x-remote-uid", "1")),
        (*headers, ("x-remote-extra-scopes", "a")),
        (*headers, ("authorization", "Bearer token")),
        (headers[1],),
        (),
    ]
    for other in others:
        assert chain.peek(make_request(*other, peer=peer)) is None
    assert Authentication(clock=clock, proxy=RequestHeaders(verifier)).peek(first) is None
    clock.now += TOKEN_TTL
    assert chain.peek(first) is None


async def test_proxy_headers_from_anybody_else_are_ignored(
    chain: Authentication, make_request: Any, alice: bytes
) -> None:
    asked = make_request(("x-remote-user", "system:admin"), certificate=alice)
    assert (await chain.authenticate(asked)).user.name == "alice"


@pytest.mark.parametrize(
    ("path", "allowed"), [("/healthz", True), ("/healthz/x", False), ("/api", False)]
)
async def test_anonymous_can_be_limited_to_paths(
    make_request: Any, clock: Clock, path: str, allowed: bool
) -> None:
    chain = Authentication(clock=clock, anonymous=Anonymous(["/healthz"]))
    asked = make_request(path="/clusters/root" + path)
    if allowed:
        assert (await chain.authenticate(asked, "root", path)).user.name == "system:anonymous"
    else:
        with pytest.raises(Unauthorized):
            await chain.authenticate(asked, "root", path)


async def test_without_anonymous_access_a_credential_is_needed(
    make_request: Any, clock: Clock
) -> None:
    with pytest.raises(Unauthorized):
        await Authentication(clock=clock).authenticate(make_request())


def encoded(token: bytes) -> str:
    text = base64.urlsafe_b64encode(token).decode().rstrip("=")
    return "base64url.bearer.authorization.k8s.io." + text


@pytest.mark.parametrize(
    ("protocols", "expected"),
    [
        (["binary.k8s.io, " + encoded(b"good")], "bearer"),
        ([encoded(b"good"), "v4.channel.k8s.io"], "bearer"),
        (["binary.k8s.io"], "system:anonymous"),
        ([encoded(b"") + ",x"], "system:anonymous"),
        ([encoded(b"good")], None),
        ([encoded(b"good"), encoded(b"good"), "x"], None),
        (["x, base64url.bearer.authorization.k8s.io.!!"], None),
        (["x", encoded(b"\xff\xfe")], None),
        (["x", encoded(b"unknown")], None),
    ],
)
async def test_browsers_send_the_token_as_a_subprotocol(
    chain: Authentication, make_request: Any, protocols: list[str], expected: str | None
) -> None:
    headers = [("sec-websocket-protocol", value) for value in protocols]
    asked = make_request(("upgrade", "WebSocket"), *headers)
    if expected is None:
        with pytest.raises(Unauthorized):
            await chain.authenticate(asked)
    else:
        assert (await chain.authenticate(asked)).user.name == expected
        assert chain.peek(asked) is None


async def test_a_subprotocol_is_no_token_outside_a_websocket(
    chain: Authentication, make_request: Any
) -> None:
    asked = make_request(("sec-websocket-protocol", "x, " + encoded(b"good")))
    assert (await chain.authenticate(asked)).user.name == "system:anonymous"


def test_the_token_is_not_echoed() -> None:
    assert without_token_protocol(f"a, {encoded(b'good')} ,b") == "a,b"


@pytest.mark.parametrize(
    ("token", "error"),
    [
        ("unknown", "invalid bearer token"),
        ("refused", "[invalid bearer token, token has expired]"),
    ],
)
async def test_a_review_says_why_a_token_is_refused(
    chain: Authentication, token: str, error: str
) -> None:
    with pytest.raises(CredentialRejected) as caught:
        await chain.review_token(token, [], "root")
    assert str(caught.value) == error


async def test_a_review_finds_tokens_of_every_kind(chain: Authentication) -> None:
    for token, name in (("admin", "root"), ("good", "bearer")):
        assert (await chain.review_token(token, [], "root")).user.name == name


async def test_nobody_is_asked_for_a_token_that_is_too_long(
    chain: Authentication, tokens: CountingTokens, make_request: Any
) -> None:
    long = "a" * (MAX_TOKEN + 1)
    with pytest.raises(Unauthorized):
        await chain.authenticate(make_request(("authorization", f"Bearer {long}")))
    with pytest.raises(CredentialRejected, match="invalid bearer token"):
        await chain.review_token(long, (), "c")
    assert tokens.questions == 0
    with pytest.raises(Unauthorized):
        await chain.authenticate(make_request(("authorization", f"Bearer {long[1:]}")))
    assert tokens.questions == 1


async def test_a_certificate_is_refused_once_for_a_connection(
    clock: Clock, stranger: bytes, make_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = CertificateVerifier(certificates.create_ca("ours", NOW).certificate)
    chain = Authentication(clock=clock, certificates=ClientCertificates(verifier))
    looks = 0
    examine = verifier._examine

    def counted(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return examine(*args)

    monkeypatch.setattr(verifier, "_examine", counted)
    asked = make_request(certificate=stranger)
    for moment, expected in ((NOW, 1), (NOW + 1, 1), (NOW + TOKEN_TTL + 1, 2)):
        clock.now = moment
        with pytest.raises(Unauthorized):
            await chain.authenticate(asked)
        assert looks == expected
