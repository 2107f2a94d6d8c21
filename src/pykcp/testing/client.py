"""A small synchronous client for tests: JSON in, JSON out, nothing hidden."""

from __future__ import annotations

import copy
import json
import select
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import lru_cache
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlencode

from pykcp.testing.kubeconfig import Access
from pykcp.types import Object

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Reply:
    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)

    def header_all(self, name: str) -> list[str]:
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:400]!r}>"


class TestClient:
    """Talks HTTP/1.1 to one server, in one logical cluster. Threads each get a connection."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    def __init__(
        self, access: Access, cluster: str = "", opened: list[HTTPSConnection] | None = None
    ) -> None:
        self.access = access
        self._opened: list[HTTPSConnection] = [] if opened is None else opened
        """Every connection made, also by clients derived from this one; for `close`."""
        self.prefix = f"/clusters/{cluster}" if cluster else access.path
        self._ssl = _context(access)
        self._local = threading.local()

    def in_cluster(self, cluster: str) -> TestClient:
        """The same user in another logical cluster, by the same connections."""
        client = copy.copy(self)
        client.prefix = f"/clusters/{cluster}" if cluster else self.access.path
        return client

    def with_token(self, token: str) -> TestClient:
        access = replace(self.access, token=token, certificate=None)
        client = TestClient(access, opened=self._opened)
        client.prefix = self.prefix
        return client

    def with_certificate(self, files: tuple[str, str]) -> TestClient:
        """The same as another user: the files of a client certificate and its key."""
        access = replace(self.access, token="", certificate=files)
        client = TestClient(access, opened=self._opened)
        client.prefix = self.prefix
        return client

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """One request; a dict or list as body is sent as JSON, bytes and text as they are."""
        if query:
            path = f"{path}?{urlencode(query, doseq=True)}"
        data = body
        if isinstance(body, (dict, list)):
            data = json.dumps(body)
        sent = {"Accept": accept, **(headers or {})}
        if self.access.token:
            sent.setdefault("Authorization", f"Bearer {self.access.token}")
        if data is not None:
            sent["Content-Type"] = content_type
        for attempt in (0, 1):
            connection = self._connection()
            try:
                connection.request(method, self.prefix + path, data, sent)
                response = connection.getresponse()
                return Reply(response.status, response.getheaders(), response.read())
            except (ConnectionError, OSError):
                self.drop()
                if attempt or method not in ("GET", "HEAD"):
                    raise
        raise AssertionError

    def _connection(self) -> HTTPSConnection:
        connection: HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None or _is_ended(connection):
            self.drop()
            connection = self._local.connection = HTTPSConnection(
                self.access.host, self.access.port, timeout=60, context=self._ssl
            )
            self._opened.append(connection)
        return connection

    def drop(self) -> None:
        """Close the connection of this thread; the next request opens another one."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def close(self) -> None:
        """Close all connections, also those of other threads and derived clients."""
        for connection in self._opened:
            connection.close()

    def get(self, path: str, **more: Any) -> Reply:
        return self.request("GET", path, **more)

    def post(self, path: str, body: Any, **more: Any) -> Reply:
        return self.request("POST", path, body, **more)

    def put(self, path: str, body: Any, **more: Any) -> Reply:
        return self.request("PUT", path, body, **more)

    def patch(self, path: str, body: Any, content_type: str = MERGE, **more: Any) -> Reply:
        return self.request("PATCH", path, body, content_type, **more)

    def delete(self, path: str, body: Any = None, **more: Any) -> Reply:
        return self.request("DELETE", path, body, **more)

    def watch(
        self,
        path: str,
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Generator[Object, None, None]:
        """Events as they come, on a connection of their own; close the generator to stop."""
        connection = HTTPSConnection(
            self.access.host, self.access.port, timeout=60, context=self._ssl
        )
        sent = {"Accept": accept, **(headers or {})}
        if self.access.token:
            sent["Authorization"] = f"Bearer {self.access.token}"
        target = f"{self.prefix}{path}?{urlencode({'watch': 'true', **query})}"
        try:
            connection.request("GET", target, headers=sent)
            response = connection.getresponse()
            if response.status != 200:
                raise AssertionError(f"watch: {response.status} {response.read()!r}")
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()


def _context(access: Access) -> ssl.SSLContext:
    if access.certificate is None:
        return trusting(access.ca)
    context = ssl.create_default_context(cadata=access.ca)
    context.load_cert_chain(*access.certificate)
    return context


@lru_cache(maxsize=64)
def trusting(ca: str) -> ssl.SSLContext:
    """For servers of an authority, without a certificate of one's own; not to be changed."""
    return ssl.create_default_context(cadata=ca)


def _is_ended(connection: HTTPSConnection) -> bool:
    """Whether the server has closed a connection on which nothing is expected."""
    if connection.sock is None:
        return False  # it opens with the next request
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN)
    return bool(waiting.poll(0))


def eventually(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    """The first true answer; asserts that it comes in time."""
    deadline = time.monotonic() + seconds
    pause = 0.02
    while True:
        answer = check()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} s"
        time.sleep(pause)
        pause = min(pause * 1.1, 0.1)  # what takes long is not asked for all the time
