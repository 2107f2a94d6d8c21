"""Requests for tenants, to real servers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp import web

from pykcp.clients.destinations import Destinations, OwnSocket
from pykcp.clients.errors import NotAllowed, SendFailed, TimedOut
from pykcp.clients.names import HostNames
from pykcp.clients.outbound import Outbound, Outgoing, Tenant
from pykcp.clients.shares import Shares
from pykcp.clients.trust import BadBundle, Bundles
from pykcp.testing.https import HTTPSServer, Received
from pykcp.testing.sharded import free_ports


@pytest.fixture(scope="module")
def server() -> Iterator[HTTPSServer]:
    made = HTTPSServer()
    yield made
    made.close()


class Sent:
    """An Outbound, and requests with it."""

    def __init__(self, server: HTTPSServer, names: HostNames, destinations: Destinations) -> None:
        self.server = server
        self.outbound = Outbound(destinations, names, Shares(8))

    async def close(self) -> None:
        await self.outbound.close()
        await asyncio.sleep(0.1)  # connections with broken answers say goodbye first

    async def __call__(self, url: str, **options: Any) -> Any:
        tls = await self.outbound.bundles.context(self.server.ca.encode(), "c")
        given = {"seconds": 20.0, "max_answer": 1000, **options}
        return await self.outbound.send(Outgoing(url, Tenant("c"), tls, **given))


@pytest.fixture
async def send(server: HTTPSServer) -> AsyncIterator[Sent]:
    made = Sent(server, HostNames(), Destinations())
    yield made
    await made.close()


async def refused(sent: Any) -> str:
    with pytest.raises(SendFailed) as caught:
        await sent
    return str(caught.value)


async def test_a_large_body_arrives_whole(server: HTTPSServer, send: Sent) -> None:
    url = server.on("/echo", lambda r: {"n": len(r.body), "type": r.headers["content-type"]})
    parts = (b"a" * 10, b"b" * 300_000, b"c" * 70_000)
    headers = {"Content-Type": "application/json"}
    answer = await send(url, method="POST", body=parts, headers=headers)
    assert (answer.status, answer.body) == (200, b'{"n": 370010, "type": "application/json"}')
    (received,) = [r for r in server.received if r.path == "/echo"]
    assert received.body == b"".join(parts)
    assert "transfer-encoding" not in received.headers


async def endless() -> AsyncIterator[bytes]:
    for _ in range(1000):
        yield b"x" * 65536
        await asyncio.sleep(0)


async def trickle() -> AsyncIterator[bytes]:
    while True:
        yield b"x"
        await asyncio.sleep(0.05)


async def test_answers_are_bounded(server: HTTPSServer, send: Sent) -> None:
    url = server.on("/endless", lambda _: web.Response(body=endless()))
    assert await refused(send(url)) == "the answer is longer than 1000 bytes"
    url = server.on("/trickle", lambda _: web.Response(body=trickle()))
    with pytest.raises(TimedOut, match="context deadline exceeded"):
        await send(url, seconds=0.5)
    url = server.on(
        "/bomb", lambda _: web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    )
    assert "compressed" in await refused(send(url))
    big = {"X-Big": "x" * 100_000}
    url = server.on("/headers", lambda _: web.Response(headers=big))
    assert await refused(send(url)) == "malformed HTTP response"
    many = {f"X-{n}": "x" for n in range(1000)}
    url = server.on("/many", lambda _: web.Response(headers=many))
    assert await refused(send(url)) == "malformed HTTP response"


async def test_failures_need_no_garbage_collector(server: HTTPSServer, send: Sent) -> None:
    """An error that is part of a cycle keeps the request that failed, and its body."""
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}/"
    await refused(send(url))
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        with contextlib.suppress(SendFailed):
            await send(url, method="POST", body=(b"x" * 100_000,))
        await asyncio.sleep(0)
        gc.collect()
        assert not [one for one in gc.garbage if isinstance(one, (SendFailed, Outgoing))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def redirect(status: int, location: str) -> web.Response:
    return web.Response(status=status, headers={"Location": location})


@pytest.mark.parametrize(
    ("status", "method", "body"), [(307, "POST", b"hi"), (308, "POST", b"hi"), (302, "GET", b"")]
)
async def test_redirects_on_the_same_server(
    server: HTTPSServer, send: Sent, status: int, method: str, body: bytes
) -> None:
    seen: list[Received] = []

    def answer(received: Received) -> bytes:
        seen.append(received)
        return b"{}"

    server.on("/there", answer)
    url = server.on("/here", lambda _: redirect(status, "/there"))
    assert (await send(url, method="POST", body=(b"hi",))).status == 200
    assert [(r.method, r.body) for r in seen] == [(method, body)]


async def test_redirects_elsewhere(server: HTTPSServer, send: Sent) -> None:
    other = HTTPSServer()
    try:
        for target in (
            other.url,
            f"http://127.0.0.1:{server.port}/",
            f"https://localhost:{server.port}/",
            "https://169.254.169.254/latest",
            "//169.254.169.254/latest",
        ):
            url = server.on("/away", lambda _, to=target: redirect(307, to))
            said = await refused(send(url, method="POST"))
            assert said == "redirects to another server are not followed"
        assert other.received == []
    finally:
        other.close()
    url = server.on("/circle", lambda _: redirect(307, "/circle"))
    assert await refused(send(url)) == "stopped after 10 redirects"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1/", 'unsupported protocol scheme "http"'),
        ("https:///x", "no Host in request URL"),
        ("https://h:99999/", "invalid URL"),
        ("https://127.0.0.1:1/", "dial tcp 127.0.0.1:1: connect: connection refused"),
        (
            "https://169.254.169.254/",
            "dial tcp 169.254.169.254:443: the destination is not allowed",
        ),
        ("https://[fe80::1]/", "dial tcp fe80::1:443: the destination is not allowed"),
        ("https://0.0.0.0:1/", "dial tcp 0.0.0.0:1: the destination is not allowed"),
        ("https://[::ffff:169.254.169.254]/", "the destination is not allowed"),
        ("https://2852039166/", "the destination is not allowed"),
        ("https://0xa9fea9fe/", "the destination is not allowed"),
    ],
)
async def test_destinations(send: Sent, url: str, said: str) -> None:
    assert said in await refused(send(url))


async def test_the_address_that_was_checked_is_used(server: HTTPSServer) -> None:
    """A name that leads elsewhere when asked again is not asked again."""
    asked: list[str] = []

    def rebinding(host: str) -> list[str]:
        asked.append(host)
        if host.startswith("evil"):
            return ["169.254.169.254"]
        return ["127.0.0.1" if len(asked) == 1 else "169.254.169.254"]

    now = 0.0
    send = Sent(server, HostNames(rebinding, lambda: now), Destinations())
    url = server.on("/x", lambda _: {}).replace("127.0.0.1", "hook.test")
    try:
        assert (await send(url, server_name="localhost")).status == 200
        assert asked == ["hook.test"]
        assert "not allowed" in await refused(send("https://evil.test/"))
        now = 60.0
        with pytest.raises(NotAllowed):
            await send(url, server_name="localhost")
    finally:
        await send.close()


async def test_own_parts_are_not_called_whatever_their_name(server: HTTPSServer) -> None:
    names = HostNames(lambda _: ["127.0.0.1"])
    own = [OwnSocket("front-proxy.test", server.port)]
    send = Sent(server, names, Destinations(own=own))
    try:
        for host in ("front-proxy.test", "alias.test", "127.0.0.1"):
            assert "not allowed" in await refused(send(f"https://{host}:{server.port}/"))
    finally:
        await send.close()
    assert send.outbound.refused == 3


async def test_certificates_are_verified(server: HTTPSServer, send: Sent) -> None:
    url = server.on("/x", lambda _: {})
    other = HTTPSServer()
    try:
        send.server = other
        assert await refused(send(url)) == (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )
        send.server = server
        said = await refused(send(url, server_name="other.test"))
        assert said.startswith("tls: failed to verify certificate: x509: ")
    finally:
        other.close()


async def test_hanging_servers_of_one_tenant_do_not_delay_another(server: HTTPSServer) -> None:
    send = Sent(server, HostNames(), Destinations())

    async def hang(_: Received) -> bytes:
        await asyncio.sleep(60)
        return b""

    hanging, quick = server.on("/hang", hang), server.on("/quick", lambda _: {})
    tls = await send.outbound.bundles.context(server.ca.encode(), "c")

    def ask(url: str, tenant: Tenant, seconds: float) -> asyncio.Task[Any]:
        return asyncio.create_task(
            send.outbound.send(Outgoing(url, tenant, tls, seconds, max_answer=100))
        )

    tasks = [ask(hanging, Tenant(f"c{n}", "mallory"), 60) for n in range(60)]
    try:
        # Their destination is full, but not the server.
        other = hanging.replace("127.0.0.1", "localhost").replace("/hang", "/quick")
        answer = await ask(other, Tenant("innocent", "alice"), 20)
        assert answer.status == 200
        late = ask(quick, Tenant("c0", "mallory"), 0.3)
        with pytest.raises(TimedOut):  # waiting counts
            await late
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await send.close()
    assert server.count("/hang") == 4


async def test_bundles(server: HTTPSServer) -> None:
    bundles = Bundles()
    many = server.ca.encode() * 100
    context = await bundles.context(many, "c")
    assert await bundles.context(many, "c") is context
    assert await bundles.context(b"", "c") is await bundles.context(b" \n", "c")
    for bad in (b"nonsense", b"\xff", server.ca.encode()[:-60] * 40, b"x" * (2 << 20)):
        with pytest.raises(BadBundle):
            await bundles.context(bad, "c")
