"""Requests to an API server over one connection that is kept open."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import time
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote as url_quote
from urllib.parse import urlsplit

from pykcp.cli.plugins.access.client_config import Object, ServerTarget
from pykcp.cli.plugins.access.status import status_error
from pykcp.cli.plugins.access.tls import context
from pykcp.cli.plugins.errors import PluginError, Prefixed, Unreachable
from pykcp.cli.plugins.go_text import quote

USER_AGENT = "kubectl-ws (pykcp)"
_UNTRUSTED = {
    10: "certificate has expired or is not yet valid",
    18: "certificate signed by unknown authority",
    19: "certificate signed by unknown authority",
    20: "certificate signed by unknown authority",
    21: "certificate signed by unknown authority",
}
_RETRIES = 10
_LONGEST_PAUSE = 30.0


class _NamedTLSConnection(HTTPSConnection):
    """HTTPS to a server whose certificate may have another name than its address."""

    def __init__(self, *arguments: Any, server_name: str, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._server_name = server_name

    def connect(self) -> None:
        HTTPConnection.connect(self)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls: ssl.SSLContext = self._context  # type: ignore[attr-defined]
        self.sock = tls.wrap_socket(self.sock, server_hostname=self._server_name or self.host)


class RestClient:
    """A client for one server and one user. Not thread-safe: `again()` creates another one."""

    def __init__(self, target: ServerTarget, verbosity: int = 0) -> None:
        host = target.host if "://" in target.host else f"https://{target.host}"
        self._url = urlsplit(host)
        self._target = target
        self._verbosity = verbosity
        self.base = f"{self._url.scheme}://{self._url.netloc}"
        self.path_prefix = self._url.path.rstrip("/")
        """What the kubeconfig's server has before `/api`; paths of requests include it."""
        self._user: Object | None = None
        self._headers: list[tuple[str, str]] = []
        self._connection: HTTPConnection | None = None

    def again(self) -> RestClient:
        """The same client with a separate connection."""
        other = RestClient.__new__(RestClient)
        other.__dict__.update(self.__dict__)
        other._connection = None
        return other

    def get(self, path: str, about: str = "") -> Any:
        return self.request("GET", path, about=about)

    def discover(self, path: str) -> Any:
        """A discovery document; of an error, only the code is used."""
        return self.request("GET", path, reads_status=False)

    def text(self, path: str) -> tuple[int, str]:
        """The status and text of a path that has no JSON."""
        self._authenticate("GET", path)
        response, data = self._exchange("GET", path, None)
        return response.status, data.decode("utf-8", "replace")

    def certificate_end(self) -> str:
        """Until when the server's certificate is valid; "" if that is not known."""
        connection = self._connection
        if connection is None or not isinstance(connection.sock, ssl.SSLSocket):
            return ""
        return str((connection.sock.getpeercert() or {}).get("notAfter", ""))

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        about: str = "",
        *,
        reads_status: bool = True,
    ) -> Any:
        """The JSON response; raises ServerError for an error status, Unreachable without a connection."""
        self._authenticate(method, path)
        content = None if body is None else json.dumps(body).encode()
        response, data = self._exchange(method, path, content)
        for _ in range(_RETRIES):
            pause = _asked_to_wait(response)
            if pause is None:
                break
            time.sleep(pause)
            response, data = self._exchange(method, path, content)
        _show_warnings(response)
        if not 200 <= response.status < 300:
            raise status_error(response.status, data if reads_status else b"", method, about)
        try:
            return json.loads(data)
        except ValueError as error:
            raise PluginError(
                f"{method} {self.base}{path}: no JSON in the answer: {error}"
            ) from None

    def _authenticate(self, method: str, path: str) -> None:
        """Get the user's credentials once, when the first request needs them."""
        if self._user is not None:
            return
        try:
            self._user = _user(self._target)
            self._headers = _headers(self._user, is_secure=self._url.scheme == "https")
        except PluginError as error:
            address = quote(self.base + path)
            raise Prefixed(f"{method.capitalize()} {address}", error) from error

    def _exchange(
        self, method: str, path: str, content: bytes | None
    ) -> tuple[HTTPResponse, bytes]:
        start = time.monotonic()
        reused = self._connection is not None
        try:
            response, data = self._send(method, path, content)
        except (HTTPException, ConnectionError, ssl.SSLError, OSError) as error:
            self.close()
            # the server may close an idle connection just as the next request is sent; writes are
            # not retried, because the first one may have arrived
            if reused and method == "GET" and not isinstance(error, TimeoutError):
                return self._exchange(method, path, content)
            raise self._failure(method, path, error) from error
        if self._verbosity >= 6:
            took = (time.monotonic() - start) * 1000
            print(f"{method} {self.base}{path} {response.status} in {took:.0f} ms", file=sys.stderr)
        return response, data

    def _send(self, method: str, path: str, content: bytes | None) -> tuple[HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        headers = HTTPMessage()  # unlike a dict, it can hold a name twice
        for name, value in self._headers:
            headers[name] = value
        if content is not None:
            headers["Content-Type"] = "application/json"
        target = url_quote(path, safe="/:?=&,~*%!$'()+;@-._")
        self._connection.request(method, target, content, headers)  # type: ignore[arg-type]
        response = self._connection.getresponse()
        data = response.read()
        if response.will_close:
            self.close()
        return response, data

    def _connect(self) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        proxy = self._proxy()
        at_host, at_port = (proxy.hostname or "", proxy.port) if proxy else (host, port)
        timeout = self._target.timeout
        connection: HTTPConnection
        if self._url.scheme == "http":
            connection = HTTPConnection(at_host, at_port or 80, timeout=timeout)
        else:
            connection = _NamedTLSConnection(
                at_host,
                at_port or 443,
                timeout=timeout,
                context=context(self._target.cluster, self._user or {}),
                server_name=self._target.cluster.get("tls-server-name") or host,
            )
        if proxy:
            connection.set_tunnel(host, port or (80 if self._url.scheme == "http" else 443))
        return connection

    def _proxy(self) -> Any:
        named = self._target.cluster.get("proxy-url") or _proxy_of_environment(self._url)
        if not named:
            return None
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        if proxy.scheme != "http":
            raise PluginError(f"proxy {quote(named)}: only proxies with http:// are supported")
        return proxy

    def _failure(self, method: str, path: str, error: Exception) -> PluginError:
        """The error message for a request without a response, with its address."""
        word = method.capitalize()
        return Unreachable(f"{word} {quote(self.base + path)}: {self._reason(error)}")

    def _reason(self, error: Exception) -> str:
        host, port = self._url.hostname or "", self._url.port or 443
        if isinstance(error, ssl.SSLCertVerificationError):
            words = _UNTRUSTED.get(error.verify_code, error.verify_message)
            return f"tls: failed to verify certificate: x509: {words}"
        if isinstance(error, ssl.SSLError):
            from pykcp.clients.errors import tls_problem

            return tls_problem(error)
        if isinstance(error, socket.gaierror):
            return f"dial tcp: lookup {host}: no such host"
        if isinstance(error, ConnectionRefusedError):
            return f"dial tcp {host}:{port}: connect: connection refused"
        if isinstance(error, TimeoutError):
            return (
                "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
                if self._target.timeout
                else f"dial tcp {host}:{port}: i/o timeout"
            )
        if isinstance(error, OSError) and error.strerror:
            return f"dial tcp {host}:{port}: {error.strerror.lower()}"
        return str(error) or type(error).__name__

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _asked_to_wait(response: HTTPResponse) -> float | None:
    """The delay before a retry that a busy server asks for (Retry-After)."""
    pause = response.getheader("Retry-After") or ""
    is_busy = response.status == 429 or response.status >= 500
    return min(float(pause), _LONGEST_PAUSE) if is_busy and pause.isdigit() else None


def _user(target: ServerTarget) -> Object:
    """The user's fields, including those of a credential plugin."""
    command = target.user.get("exec")
    if not command:
        return target.user
    from pykcp.clients.credential_files import CredentialError
    from pykcp.clients.exec_credential import credentials

    try:
        return {**target.user, **credentials(command, target.host, target.cluster)}
    except CredentialError as error:
        raise PluginError(str(error)) from None


def _headers(user: Object, *, is_secure: bool) -> list[tuple[str, str]]:
    headers = [("Accept", "application/json"), ("User-Agent", USER_AGENT)]
    if not is_secure:
        return headers  # credentials go over TLS only
    token = user.get("token") or _token_in_file(user.get("tokenFile"))
    if token:
        headers.append(("Authorization", f"Bearer {token}"))
    elif user.get("username") or user.get("password"):
        pair = f"{user.get('username') or ''}:{user.get('password') or ''}"
        headers.append(("Authorization", "Basic " + b64encode(pair.encode()).decode()))
    return headers + (_impersonation(user) if user.get("as") else [])


def _impersonation(user: Object) -> list[tuple[str, str]]:
    headers = [("Impersonate-User", str(user["as"]))]
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or []]
    for key, values in (user.get("as-user-extra") or {}).items():
        name = "Impersonate-Extra-" + url_quote(key, safe="")
        headers += [(name, value) for value in values]
    return headers


def _token_in_file(name: str | None) -> str:
    if not name:
        return ""
    try:
        with open(name, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise PluginError(f"open {name}: {(error.strerror or '').lower()}") from None


def _proxy_of_environment(url: Any) -> str:
    names = (
        ("HTTPS_PROXY", "https_proxy") if url.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    )
    proxy = next((os.environ[name] for name in names if os.environ.get(name)), "")
    host = url.hostname or ""
    if not proxy or host in ("localhost", "127.0.0.1", "::1"):
        return ""
    excluded = os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")).split(",")
    for entry in (entry.strip().lstrip(".") for entry in excluded):
        if entry == "*" or (entry and (host == entry or host.endswith("." + entry))):
            return ""
    return proxy


def _show_warnings(response: HTTPResponse) -> None:
    """`299 - "text"` in the header becomes `Warning: text`."""
    for value in response.headers.get_all("Warning") or []:
        parts = value.split(" ", 2)
        if len(parts) == 3 and parts[0] == "299":
            text = parts[2].strip()
            if text.startswith('"') and text.endswith('"'):
                text = text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
            print(f"Warning: {text}", file=sys.stderr)
