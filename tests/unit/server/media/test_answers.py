"""Answers: their forms, headers and warnings."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pykcp.machinery.status import NotFound, ServiceUnavailable
from pykcp.server.call import Call, manager_of_agent
from pykcp.server.health import Health
from pykcp.server.media import answers

MakeCall = Callable[..., Call]


def sent(call: Call) -> Any:
    return call.exchange


@pytest.mark.parametrize(
    ("address", "encoding", "size", "expected"),
    [
        ("192.0.2.7", "gzip", 200_000, True),
        ("192.0.2.7", "br, gzip", 200_000, True),
        ("192.0.2.7", "br, gzip;q=0.5", 200_000, False),  # as upstream reads it
        ("192.0.2.7", "gzip", 1000, False),
        ("192.0.2.7", "br", 200_000, False),
        ("192.0.2.7", "", 200_000, False),
        ("127.0.0.1", "gzip", 200_000, False),
        ("::1", "gzip", 200_000, False),
    ],
)
def test_what_is_compressed(
    make_call: MakeCall, address: str, encoding: str, size: int, expected: bool
) -> None:
    """Large answers to clients elsewhere that take gzip; on this machine it only costs."""
    call = make_call(headers={"Accept-Encoding": encoding}, address=address)
    assert answers.may_compress(call, size) is expected


@pytest.mark.parametrize(("address", "is_gzip"), [("192.0.2.7", True), ("127.0.0.1", False)])
async def test_compression(make_call: MakeCall, address: str, is_gzip: bool) -> None:
    """Pieces become one gzip stream for a client elsewhere that takes it."""
    call = make_call(headers={"Accept-Encoding": "gzip"}, address=address)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a" * 10
        yield b"b"

    await answers.send_pieces(call, pieces())
    body = sent(call).body
    assert (gzip.decompress(body) if is_gzip else body) == b"a" * 10 + b"b"
    assert (("content-encoding", "gzip") in sent(call).headers) is is_gzip


@pytest.mark.parametrize(
    ("url", "accept", "content_type", "start"),
    [
        ("/api/v1/namespaces", "", "application/json", b'{"a":1}'),
        ("/api/v1/namespaces?pretty=true", "", "application/json", b'{\n  "a": 1\n}\n'),
        ("/api/v1/namespaces?pretty=false", "", "application/json", b'{"a":1}'),
        ("/api/v1/namespaces", "application/yaml", "application/yaml", b"a: 1\n"),
        ("/api/v1/namespaces", "application/json;pretty=1", "application/json", b"{\n"),
    ],
)
def test_forms(make_call: MakeCall, url: str, accept: str, content_type: str, start: bytes) -> None:
    """JSON as it is stored, unless YAML or pretty JSON is asked for."""
    call = make_call(url=url, headers={"Accept": accept} if accept else {})
    call.negotiate()
    answers.send_json(call, b'{"a":1}')
    assert sent(call).body.startswith(start)
    assert ("content-type", content_type) in sent(call).headers


def test_errors_are_statuses(make_call: MakeCall) -> None:
    """Code, reason and details; Retry-After where the error says when."""
    call = make_call()
    answers.send_status(call, ServiceUnavailable("later", retry_after=3))
    assert sent(call).status == 503
    assert ("retry-after", "3") in sent(call).headers
    call = make_call()
    answers.send_status(call, NotFound.resource("", "secrets", "x"))
    assert b'"message":"secrets \\"x\\" not found"' in sent(call).body


def test_pages_that_are_not_there_are_plain_text(make_call: MakeCall) -> None:
    """Paths outside the API get the text that Go's router gives."""
    call = make_call()
    answers.send_status(call, answers.PageNotFound())
    assert (sent(call).status, sent(call).body) == (404, b"404 page not found\n")


def test_warnings_become_headers(make_call: MakeCall) -> None:
    """Each text once, quoted, with nothing in it that breaks a header."""
    call = make_call()
    call.context.warn('say "no"\n')
    call.context.warn('say "no"\n')
    answers.send_object(call, {})
    assert [v for k, v in sent(call).headers if k == "warning"] == ['299 - "say \\"no\\" "']


@pytest.mark.parametrize(
    ("agent", "manager"),
    [("kubectl/v1.36 (linux)", "kubectl"), ("", "unknown"), ("/x", "unknown"), ("a\x07b/1", "ab"), ("x" * 300, "x" * 128)],
)  # fmt: skip
def test_managers_are_named_after_agents(agent: str, manager: str) -> None:
    """What comes before the first slash, printable, at most 128 characters."""
    assert manager_of_agent(agent) == manager


def health() -> Health:
    checks = Health()
    checks.await_hook("hook")
    checks.add("disk", lambda: "full of secrets")
    return checks


@pytest.mark.parametrize(
    ("url", "status", "text"),
    [
        ("/livez/ping", 200, "ok"),
        ("/livez/disk", 500, "internal server error: full of secrets\n"),
        ("/livez?exclude=disk", 200, "ok"),
        ("/livez", 500, "[+]ping ok\n[+]log ok\n[-]disk failed: reason withheld\nlivez check failed\n"),
        ("/readyz/poststarthook/hook", 500, "internal server error: not finished\n"),
        ("/livez?verbose&exclude=disk&exclude=nosuch", 200,
            ('[+]ping ok\n[+]log ok\n[+]disk excluded: ok\nwarn: some health checks cannot be excluded: '
            'no matches for "nosuch"\nlivez check passed\n')),
    ],
)  # fmt: skip
def test_health(make_call: MakeCall, url: str, status: int, text: str) -> None:
    """Checks alone and together, some excluded; what is wrong is not told to everybody."""
    call = make_call(url=url)
    health().handle(call)
    assert (sent(call).status, sent(call).body.decode()) == (status, text)


def test_hooks_and_draining_decide_readiness(make_call: MakeCall) -> None:
    """Ready when every hook is finished, and no longer when the process is stopping."""
    checks = health()
    assert checks.checks("readyz")["poststarthook/hook"]() == "not finished"
    checks.finish_hook("hook")
    assert checks.checks("readyz")["poststarthook/hook"]() is None
    checks.is_draining = True
    assert checks.checks("readyz")["shutdown"]() == "process is shutting down"
    assert "shutdown" not in checks.checks("livez")
