"""TLS: what is negotiated, client certificates, renewal."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import ssl
import time
from dataclasses import dataclass
from typing import Any

import pytest

from pykcp.auth.certificates import create_ca, issue_serving
from pykcp.programs.kit.groups.serving import ServingOptions
from pykcp.wire import tls as tls_module
from pykcp.wire.listener import Listener
from pykcp.wire.settings import TLSSettings, WireSettings


@dataclass
class Seen:
    """What a client sees of a handshake."""

    version: str
    cipher: str
    serial: str
    protocol: str | None


async def handshake(certificates: Any, port: int, **attributes: Any) -> Seen:
    context = certificates.client_context()
    context.set_alpn_protocols(attributes.pop("offered", ["h2"]))
    for name, value in attributes.items():
        setattr(context, name, value)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found: Any = writer.get_extra_info("ssl_object")
    seen = Seen(
        found.version(),
        found.cipher()[0],
        found.getpeercert()["serialNumber"],
        found.selected_alpn_protocol(),
    )
    await close(writer)
    return seen


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    # asyncio minds what the server said before it heard of the end.
    with contextlib.suppress(ssl.SSLError):
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), (["http/1.1", "h2"], "h2")],
)
async def test_http2_is_preferred(serve: Any, certificates: Any, offered: list[str], chosen: str):
    """By ALPN, whatever the client's order."""
    listener = await serve()
    assert (await handshake(certificates, listener.port, offered=offered)).protocol == chosen


async def test_without_alpn_it_is_http1(serve: Any, certificates: Any):
    """Old clients know no ALPN."""
    listener = await serve()
    context = ssl.create_default_context(cafile=str(certificates.directory / "ca.crt"))
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=context)
    writer.write(b"GET /peer HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"HTTP/1.1 127.0.0.1 1 False")
    await close(writer)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_versions(serve: Any, certificates: Any, version: ssl.TLSVersion):
    """1.2 and 1.3 are spoken, with forward secrecy."""
    listener = await serve()
    found = await handshake(certificates, listener.port, maximum_version=version)
    assert found.version == version.name.replace("_", ".")
    assert found.cipher.startswith(("ECDHE-", "TLS_"))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
async def test_old_versions_are_refused(serve: Any, certificates: Any):
    """1.1 is not."""
    listener = await serve()
    context = certificates.client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", listener.port, ssl=context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["client", "foreign"])
async def test_client_certificate_is_shown_and_not_judged(
    serve: Any, connect: Any, certificates: Any, hello: Any, name: str, version: ssl.TLSVersion
):
    """Even of an unknown issuer: the application has it as DER, with what came along."""
    listener = await serve()
    context = certificates.client_context(name)
    context.maximum_version = version
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=context)
    client = type(await connect.h2(listener))(reader, writer)
    connect.opened.append(client)
    client.flush()
    assert (await client.request("GET", "/peer"))[1].endswith(b" 1 True")
    peer = hello.requests[-1].peer
    expected = certificates.client if name == "client" else certificates.foreign_client
    assert peer.certificate == expected
    assert len(peer.intermediates) == 1


async def test_certificates_need_not_be_asked_for(certificates: Any, hello: Any, connect: Any):
    """Where nobody authenticates by certificate, no browser need ask its user for one."""
    settings = certificates.tls
    quiet = TLSSettings(settings.cert_file, settings.key_file, request_client_certificate=False)
    listener = await Listener(hello, tls=quiet).start("127.0.0.1", 0)
    client = await connect.h2(listener, "client")
    assert (await client.request("GET", "/peer"))[1].endswith(b" 1 False")
    await listener.close()


async def test_where_openssl_cannot_be_told(
    certificates: Any, hello: Any, connect: Any, monkeypatch: Any, caplog: Any
):
    """The fallback: good certificates are accepted, foreign ones fail, and the log says so."""
    monkeypatch.setattr(tls_module, "_leave_judging_to_application", lambda _: False)
    settings = certificates.tls
    ca_file = str(certificates.directory / "ca.crt")
    fallback = TLSSettings(settings.cert_file, settings.key_file, client_ca_file=ca_file)
    listener = await Listener(hello, tls=fallback).start("127.0.0.1", 0)
    client = await connect.h2(listener, "client")
    assert (await client.request("GET", "/peer"))[1].endswith(b" 1 True")
    foreign = await connect.http1(listener, "foreign")
    foreign.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
        await foreign.read(1)
    assert "will fail the handshake" in caplog.text
    await listener.close()
    none = TLSSettings(settings.cert_file, settings.key_file)
    listener = await Listener(hello, tls=none).start("127.0.0.1", 0)
    client = await connect.h2(listener, "client")
    assert (await client.request("GET", "/peer"))[1].endswith(b" 1 False")
    await listener.close()


async def test_renewed_certificate_is_picked_up(serve: Any, certificates: Any, connect: Any):
    """New connections get the new one, old ones go on; broken files change nothing."""
    listener = await serve()
    before = (await handshake(certificates, listener.port)).serial
    old_client = await connect.h2(listener)
    certificates.authority.issue(certificates.directory, "server")
    after = (await handshake(certificates, listener.port)).serial
    assert before != after
    (certificates.directory / "server.crt").write_text("half a certific")
    assert (await handshake(certificates, listener.port)).serial == after
    with pytest.raises(ssl.SSLError):
        listener.reload_certificate()
    certificates.authority.issue(certificates.directory, "server")
    listener.reload_certificate()
    assert (await handshake(certificates, listener.port)).serial not in (before, after)
    assert await old_client.request("GET", "/") == (200, b"hello\n")


async def test_vanished_files_change_nothing(serve: Any, certificates: Any, caplog: Any):
    """A certificate in mid-rotation may be missing for a moment."""
    listener = await serve()
    (certificates.directory / "server.key").unlink()
    await handshake(certificates, listener.port)
    assert "not reloaded" in caplog.text


async def test_bad_files_are_reported_at_start(certificates: Any, hello: Any, tmp_path: Any):
    """Not at the first connection."""
    empty = tmp_path / "empty"
    empty.write_text("")
    for bad in (str(empty), str(tmp_path / "missing")):
        with pytest.raises(OSError):
            await Listener(hello, tls=TLSSettings(bad, bad)).start("127.0.0.1", 0)


async def test_plain_http_on_the_tls_port(serve: Any):
    """The words that Go's servers say."""
    listener = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.0 400 Bad Request\r\n")
    assert answer.endswith(b"Client sent an HTTP request to an HTTPS server.\n")
    await close(writer)


async def test_junk_instead_of_a_handshake(serve: Any, hello: Any):
    """Is an alert and the end."""
    listener = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"\x16\x03\x01\x00\x05junk!" * 3)
    assert len(await reader.read()) < 10
    await close(writer)
    assert listener.connection_count == 0


async def test_busy_port(serve: Any, hello: Any):
    """One clear line."""
    listener = await serve(plain=True)
    with pytest.raises(OSError, match=f"127.0.0.1:{listener.port} is in use by another program"):
        await Listener(hello, WireSettings()).start("127.0.0.1", listener.port)


async def test_foreign_address(hello: Any):
    """An address that is not ours is named in the error."""
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:1"):
        await Listener(hello).start("192.0.2.1", 1)


async def test_bad_settings(hello: Any):
    """Are reported before anything is bound."""
    with pytest.raises(ValueError, match="max_body must be positive"):
        await Listener(hello, WireSettings(max_body=-1)).start("127.0.0.1", 0)


async def _served(options: ServingOptions, tmp_path: pathlib.Path, serve: Any) -> int:
    """A listener with what the flags say; its port."""
    files = options.files(tmp_path)
    listener = await serve(tls=options.tls(files))
    return int(listener.port)


async def _cipher(tmp_path: pathlib.Path, port: int, **attributes: Any) -> str:
    context = ssl.create_default_context(cafile=str(tmp_path / "serving-ca.crt"))
    context.set_alpn_protocols(["http/1.1"])
    for name, value in attributes.items():
        setattr(context, name, value)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("cipher")[0]
    await close(writer)
    return str(found)


async def test_the_flag_for_the_lowest_version(serve: Any, tmp_path: pathlib.Path):
    """With VersionTLS13 a client that knows only 1.2 is rejected."""
    port = await _served(ServingOptions(tls_min_version="VersionTLS13"), tmp_path, serve)
    assert (await _cipher(tmp_path, port)).startswith("TLS_")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await _cipher(tmp_path, port, maximum_version=ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize(
    ("suite", "cipher"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ],
)
async def test_the_flag_for_cipher_suites(
    serve: Any, tmp_path: pathlib.Path, suite: str, cipher: str
):
    """TLS 1.2 speaks those that are listed and no other."""
    port = await _served(ServingOptions(tls_cipher_suites=(suite,)), tmp_path, serve)
    found = await _cipher(tmp_path, port, maximum_version=ssl.TLSVersion.TLSv1_2)
    assert found == cipher


async def test_certificates_by_host_name(serve: Any, tmp_path: pathlib.Path):
    """Names given with the flag, names of the certificate, wildcards; otherwise the first one."""
    authority = create_ca("names", time.time())
    (tmp_path / "names.crt").write_bytes(authority.certificate)
    flags = []
    for name, hosts, given in (
        ("one", ["one.example", "*.one.example"], ""),
        ("two", ["two.example"], ":two.example,*.two.example"),
        ("exact", ["a.two.example"], ""),
    ):
        pair = issue_serving(authority, hosts, time.time())
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
        flags.append(f"{tmp_path / name}.crt,{tmp_path / name}.key{given}")
    options = ServingOptions(tls_sni_cert_key=tuple(flags))
    assert list(options.problems()) == []
    port = await _served(options, tmp_path, serve)

    async def shown(host: str) -> str:
        context = ssl.create_default_context(cafile=str(tmp_path / "names.crt"))
        context.load_verify_locations(str(tmp_path / "serving-ca.crt"))
        context.check_hostname = False
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=host
        )
        names = writer.get_extra_info("peercert")["subjectAltName"]
        await close(writer)
        return str(names[0][1])

    assert await shown("one.example") == "one.example"
    assert await shown("x.one.example") == "one.example"
    assert await shown("X.Two.Example") == "two.example"
    assert await shown("a.two.example") == "a.two.example"
    assert await shown("y.x.one.example") == "localhost"
    assert await shown("other.example") == "localhost"
