"""Requests over a real socket."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from pykcp.cli.plugins.access.client_config import ServerTarget
from pykcp.cli.plugins.access.rest import RestClient, _headers
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError, Unreachable
from pykcp.cli.plugins.wait import poll

Answer = tuple[int, Any, dict[str, str]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: ClassVar[list[Answer]] = []
    seen: ClassVar[list[tuple[str, str, Any]]] = []

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.seen.append((self.command, self.path, body))
        code, content, headers = self.answers.pop(0)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = "X-Drop" in headers

    do_GET = do_POST = _answer  # noqa: N815 - the library's names

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""


@pytest.fixture
def answers() -> list[Answer]:
    Handler.answers, Handler.seen = [], []
    return Handler.answers


@pytest.fixture
def client(answers: list[Answer]) -> Iterator[RestClient]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found = RestClient(ServerTarget(f"http://127.0.0.1:{server.server_port}/clusters/root"))
    yield found
    found.close()
    server.shutdown()
    server.server_close()
    thread.join()


def _status(message: str, reason: str = "") -> dict[str, str]:
    return {"kind": "Status", "message": message, "reason": reason}


def test_answers_are_json(client, answers):
    answers += [(200, {"a": 1}, {}), (201, {"b": 2}, {})]
    assert client.get("/clusters/root:a/x/~") == {"a": 1}
    assert client.request("POST", "/y", {"c": 3}) == {"b": 2}
    assert Handler.seen == [("GET", "/clusters/root:a/x/~", None), ("POST", "/y", {"c": 3})]


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        (404, _status('workspaces "a" not found', "NotFound"), 'workspaces "a" not found'),
        (404, b"404 page not found", "the server could not find the requested resource (get things x)"),
        (401, b"", "the server has asked for the client to provide credentials (get things x)"),
        (403, b"no", "no (get things x)"),
        (500, b"oh", ('an error on the server ("oh") has prevented the request from succeeding '
                     "(get things x)")),
        (418, b"", ("the server responded with the status code 418 but did not return more "
                   "information (get things x)")),
    ],
)  # fmt: skip
def test_refusals(client, answers, code, body, message):
    answers.append((code, body, {}))
    with pytest.raises(ServerError) as caught:
        client.get("/x", about="things x")
    assert str(caught.value) == message
    assert caught.value.code == code


def test_discovery_looks_at_codes_only(client, answers):
    answers.append((404, _status("whatever"), {}))
    with pytest.raises(ServerError) as caught:
        client.discover("/api")
    assert str(caught.value) == "the server could not find the requested resource"


def test_a_busy_server_is_asked_again(client, answers):
    answers += [(429, _status("later"), {"Retry-After": "0"}), (200, {}, {})]
    assert client.get("/x") == {}


def test_a_dropped_connection_is_made_again(client, answers):
    answers += [(200, {}, {}), (200, {}, {"X-Drop": "yes"}), (200, {"c": 1}, {})]
    assert [client.get("/x") for _ in range(3)] == [{}, {}, {"c": 1}]


def test_what_changes_something_is_sent_once(client, answers):
    answers += [(200, {}, {"X-Drop": "quietly"})]
    client.get("/x")
    with pytest.raises(Unreachable):
        client.request("POST", "/x", {})
    assert [method for method, _, _ in Handler.seen] == ["GET"]


def test_warnings_are_shown(client, answers, capsys):
    answers.append((200, {}, {"Warning": '299 - "old \\"thing\\""'}))
    client.get("/x")
    assert capsys.readouterr().err == 'Warning: old "thing"\n'


def test_no_json(client, answers):
    answers.append((200, b"hello", {}))
    with pytest.raises(PluginError, match="no JSON in the answer"):
        client.get("/x")


def test_nobody_there():
    with pytest.raises(Unreachable) as caught:
        RestClient(ServerTarget("https://127.0.0.1:1/clusters/root")).get("/api")
    assert str(caught.value) == (
        'Get "https://127.0.0.1:1/api": dial tcp 127.0.0.1:1: connect: connection refused'
    )


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({}, []),
        ({"token": "t"}, [("Authorization", "Bearer t")]),
        ({"username": "a", "password": "b"}, [("Authorization", "Basic YTpi")]),
        (
            {"as": "u", "as-groups": ["g", "h"], "as-uid": "1", "as-user-extra": {"a/b": ["c"]}},
            [
                ("Impersonate-User", "u"),
                ("Impersonate-Uid", "1"),
                ("Impersonate-Group", "g"),
                ("Impersonate-Group", "h"),
                ("Impersonate-Extra-a%2Fb", "c"),
            ],
        ),
    ],
)
def test_headers(user, expected):
    assert _headers(user, is_secure=True)[2:] == expected
    assert _headers(user, is_secure=False)[2:] == []


def test_a_token_in_a_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("abc\n", encoding="utf-8")
    assert ("Authorization", "Bearer abc") in _headers({"tokenFile": str(file)}, is_secure=True)
    with pytest.raises(PluginError, match=r"^open /nosuch: no such file or directory$"):
        _headers({"tokenFile": "/nosuch"}, is_secure=True)


def test_waiting_has_an_end():
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    asked = []
    with pytest.raises(PluginError, match=r"^context deadline exceeded$"):
        poll(lambda: asked.append(now[0]), 5.0, clock=lambda: now[0], pause=pause)  # type: ignore[func-returns-value,return-value]
    assert asked[0] == 0.0
    assert asked[-1] == pytest.approx(5.0)
    assert max(b - a for a, b in itertools.pairwise(asked)) <= 0.5 + 1e-9
