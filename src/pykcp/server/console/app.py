"""The application under `/console/`: files for everyone, and two requests for signing in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from pykcp.auth.settings import SignInSettings
from pykcp.machinery.status import StatusError
from pykcp.server.call import Pending
from pykcp.server.console.files import ConsoleFiles, load_files
from pykcp.server.console.sign_in import ConsoleClient, IssuerSignIn
from pykcp.server.documents.version import GIT_VERSION
from pykcp.server.mount import CONSOLE
from pykcp.wire.exchange import Exchange, Header

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{}; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_CSP = "content-security-policy"
_PROTECTION: tuple[Header, ...] = (
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=()"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)
_SAFE: tuple[Header, ...] = ((_CSP, _POLICY.format("")), *_PROTECTION)
_FIXED, _CHANGING = "private, max-age=31536000, immutable", "no-cache"
_JSON: tuple[Header, ...] = (
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
    *_SAFE,
)


class Console:
    """`kind`: the program that serves it, `shard` or `front-proxy`."""

    def __init__(self, kind: str, settings: SignInSettings, client: ConsoleClient) -> None:
        self._kind, self._settings, self._client = kind, settings, client
        self._files: ConsoleFiles | None = None
        self._issuer: IssuerSignIn | None = None

    def handle(self, exchange: Exchange) -> Pending:
        request = exchange.request
        if request.path == CONSOLE:
            exchange.respond(308, (("location", f"{CONSOLE}/"), *_SAFE))
            return None
        name = request.path[len(CONSOLE) + 1 :]
        asked = (request.method, name)
        if asked == ("GET", "api/config"):
            _answer(exchange, 200, self._config())
            return None
        if asked == ("GET", "api/issuer"):
            return _answer_later(exchange, self._sign_in().describe)
        if asked == ("POST", "api/token"):
            body = b"" if request.truncated else request.body
            return _answer_later(exchange, lambda: self._sign_in().exchange(body))
        self._send_file(exchange, name)
        return None

    def _config(self) -> dict[str, Any]:
        return {
            "server": self._kind,
            "version": GIT_VERSION,
            "oidc": self._sign_in().is_configured,
        }

    def _sign_in(self) -> IssuerSignIn:
        if self._issuer is None:
            self._issuer = IssuerSignIn(self._settings, self._client)
        return self._issuer

    def _send_file(self, exchange: Exchange, name: str) -> None:
        request = exchange.request
        if self._files is None:
            self._files = load_files()
        found = self._files.find(name)
        if found is None or request.method not in ("GET", "HEAD"):
            status, text = (
                (404, b"not found\n") if found is None else (405, b"method not allowed\n")
            )
            exchange.respond(status, (("content-type", "text/plain; charset=utf-8"), *_SAFE), text)
            return
        file = found.file
        style = "" if name else f" '{self._files.style_hash}'"
        headers = [
            ("content-type", file.content_type),
            ("cache-control", _FIXED if found.is_fixed else _CHANGING),
            ("etag", file.etag),
            ("vary", "accept-encoding"),
            (_CSP, _POLICY.format(style)),
            *_PROTECTION,
        ]
        if request.header("if-none-match") == file.etag:
            exchange.respond(304, headers)
        elif "gzip" in (request.header("accept-encoding") or ""):
            exchange.respond(200, (*headers, ("content-encoding", "gzip")), file.compressed)
        else:
            exchange.respond(200, headers, file.content)


def _answer(exchange: Exchange, status: int, content: object) -> None:
    exchange.respond(status, _JSON, orjson.dumps(content))


async def _answer_later(exchange: Exchange, work: Callable[[], Awaitable[object]]) -> None:
    try:
        content = await work()
    except StatusError as error:
        _answer(exchange, error.code, error.to_json())
    else:
        _answer(exchange, 200, content)
