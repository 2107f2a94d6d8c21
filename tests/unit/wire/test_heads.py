"""Request heads: what passes, what is not HTTP."""

from __future__ import annotations

import pytest

from pykcp.wire.heads import Head, MalformedMessage, RequestHeads, check_trailers, http2_head
from pykcp.wire.http1.head import HeadWriter, RequestRejected, http1_head

GET = [(":method", "GET"), (":scheme", "https"), (":path", "/a%20b?x=1&y"), (":authority", "h:1")]


def test_http2_head():
    """Path and query are split, the authority becomes the host, values are found by name."""
    head = http2_head([*GET, ("accept", "a"), ("accept", "b"), ("content-length", "7")])
    assert (head.method, head.path, head.query) == ("GET", "/a%20b", "x=1&y")
    assert head.content_length == 7
    assert head.first("accept") == "a"
    assert head.first("host") == "h:1"
    assert head.first("missing") is None
    assert not head.expects_continue


def at(path: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [GET[0], GET[1], (":path", path), GET[3], ("accept", "a"), *more]


def contents(head: Head) -> tuple[object, ...]:
    return (
        head.method, head.path, head.query, head.headers, head.content_length,
        head.expects_continue, head.first("accept"), head.first("x"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        at("/b?y"),
        at("/b", ("x", "1")),
        at("/b", ("accept", "b")),
        at("/b", ("content-length", "7"), ("expect", "100-continue")),
        [("accept", "a"), *GET],
        [*GET, ("accept", "a")],
        [GET[0], GET[2], GET[1], GET[3], ("accept", "a")],
        [(":method", "PUT"), *at("/b")[1:]],
        at("/b", (":path", "/c")),
        at("b"),
        at(""),
        at("*"),
        at("/b")[:2],
        [],
    ],
)
def test_heads_after_each_other(fields: list[tuple[str, str]]):
    """What a head is does not depend on the one before it."""
    heads = RequestHeads()
    for path in ("/a", "/a?x", "/b"):
        assert contents(heads.make(at(path))) == contents(http2_head(at(path)))
    try:
        expected = contents(http2_head(fields))
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            heads.make(fields)
    else:
        assert contents(heads.make(fields)) == expected
    assert contents(heads.make(at("/c"))) == contents(http2_head(at("/c")))


def test_invalid_fields_are_found_behind_valid_ones():
    """Once a connection has sent something invalid, each head is looked at as a whole."""
    heads = RequestHeads()
    heads.make(at("/a"))
    with pytest.raises(MalformedMessage):
        heads.make(at("/a\n"), check_each=True)


def test_split_cookies_are_joined():
    """HTTP/2 clients may send a cookie in crumbs."""
    head = http2_head([*GET, ("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")])
    assert [value for name, value in head.headers if name == "cookie"] == ["a=1; b=2"]


def test_host_of_the_client_is_kept():
    """An explicit host header is not doubled."""
    head = http2_head([*GET, ("host", "other")])
    assert [value for name, value in head.headers if name == "host"] == ["other"]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        GET[1:],
        [GET[0], *GET[2:]],
        GET[:2],
        [*GET, GET[0]],
        [("accept", "a"), *GET],
        [*GET[:3], ("accept", "a"), GET[3]],
        [*GET, (":status", "200")],
        [*GET, (":protocol", "websocket")],
        [*GET, ("connection", "keep-alive")],
        [*GET, ("transfer-encoding", "chunked")],
        [*GET, ("upgrade", "h2c")],
        [*GET, ("te", "gzip")],
        [*GET, ("content-length", "-1")],
        [*GET, ("content-length", "1x")],
        [*GET, ("content-length", "٣")],
        [*GET, ("content-length", "9" * 19)],
        [*GET, ("content-length", "1"), ("content-length", "2")],
        [(":method", "GET"), (":scheme", "https"), (":path", "")],
        [(":method", "GET"), (":scheme", "https"), (":path", "api")],
        [(":method", "GET"), (":scheme", "https"), (":path", "*")],
        [(":method", "CONNECT"), (":authority", "h:1")],
    ],
)
def test_malformed_http2(fields: list[tuple[str, str]]):
    """Missing, repeated, misplaced and forbidden fields never reach the application."""
    with pytest.raises(MalformedMessage):
        http2_head(fields)


@pytest.mark.parametrize(
    "fields",
    [
        [*GET, ("te", "trailers")],
        [*GET, ("content-length", "5"), ("content-length", "5")],
        [(":method", "OPTIONS"), (":scheme", "https"), (":path", "*")],
        [*GET, ("expect", "100-Continue")],
    ],
)
def test_unusual_but_allowed_http2(fields: list[tuple[str, str]]):
    """What the standard allows passes."""
    assert http2_head(fields).method in ("GET", "OPTIONS")


def test_each_field_is_checked_when_asked():
    """An invalid field in the table is found even if this block only refers to it."""
    fields = [*GET, ("Upper", "x")]
    assert http2_head(fields).first("Upper") == "x"
    with pytest.raises(MalformedMessage):
        http2_head(fields, check_each=True)


@pytest.mark.parametrize("field", [(":path", "/"), ("connection", "x"), ("A", "b"), ("a", "\n")])
def test_bad_trailers(field: tuple[str, str]):
    """Trailers are thrown away, but not unseen."""
    check_trailers([("grpc-status", "0")])
    with pytest.raises(MalformedMessage):
        check_trailers([field])


@pytest.mark.parametrize(
    ("method", "target", "path", "query"),
    [
        ("GET", "/a?b=c", "/a", "b=c"),
        ("GET", "http://host/a?b", "/a", "b"),
        ("GET", "https://host", "/", ""),
        ("GET", "http://host?x", "/", "x"),
        ("OPTIONS", "*", "*", ""),
    ],
)
def test_http1_targets(method: str, target: str, path: str, query: str):
    """All forms of a request target that a server has to understand."""
    head = http1_head(method, target, [("host", "h")], "1.1")
    assert (head.path, head.query) == (path, query)


@pytest.mark.parametrize(
    ("status", "method", "target", "headers", "version"),
    [
        (400, "GET", "/", [], "1.1"),
        (400, "GET", "/", [("host", "a"), ("host", "b")], "1.1"),
        (400, "GET", "nonsense", [("host", "a")], "1.1"),
        (400, "GET", "*", [("host", "a")], "1.1"),
        (400, "GET", "ftp://a/b", [("host", "a")], "1.1"),
        (405, "CONNECT", "a:1", [("host", "a")], "1.1"),
        (
            400,
            "POST",
            "/",
            [("host", "a"), ("content-length", "1"), ("transfer-encoding", "chunked")],
            "1.1",
        ),
        (400, "POST", "/", [("transfer-encoding", "chunked")], "1.0"),
        (501, "POST", "/", [("host", "a"), ("transfer-encoding", "gzip, chunked")], "1.1"),
        (501, "POST", "/", [("host", "a"), *[("transfer-encoding", "chunked")] * 2], "1.1"),
        (400, "POST", "/", [("host", "a"), ("content-length", "+1")], "1.1"),
        (400, "POST", "/", [("host", "a"), *[("content-length", n) for n in "12"]], "1.1"),
    ],
)
def test_rejected_http1(
    status: int, method: str, target: str, headers: list[tuple[str, str]], version: str
):
    """Ambiguous lengths, missing hosts and tunnels are refused with the status Go gives."""
    with pytest.raises(RequestRejected) as rejected:
        http1_head(method, target, headers, version)
    assert rejected.value.status == status


def test_head_lines():
    """Lines are remembered, unknown statuses have a reason too, and nothing can be smuggled in."""
    writer = HeadWriter()
    assert writer.status_line(200) == b"HTTP/1.1 200 OK\r\n"
    assert writer.status_line(799) == b"HTTP/1.1 799 status code 799\r\n"
    assert writer.line(("a", "b")) == b"a: b\r\n"
    assert writer.line(("a", "b")) is writer.line(("a", "b"))
    for header in (("a", "b\r\nc: d"), ("a b", "c"), ("a:", "b"), ("", "b")):
        with pytest.raises(ValueError, match="cannot be sent"):
            writer.line(header)
    for number in range(2 * HeadWriter.max_lines):
        writer.line(("n", str(number)))
    assert len(writer._lines) <= HeadWriter.max_lines
