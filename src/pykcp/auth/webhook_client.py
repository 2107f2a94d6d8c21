"""Calls of authentication and authorization webhooks, which a kubeconfig describes.

Its current context names the address (with the whole path), the CA bundle and the client's
certificate or token. Calls are retried as upstream retries them, and end after SECONDS in any
case. Errors never contain what was sent or received: both may contain a token.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import pathlib
import random
import time
from collections.abc import Callable

import orjson

from pykcp.auth.files import read
from pykcp.clients.errors import SendFailed
from pykcp.clients.kubeconfig import KubeconfigServer, make_context
from pykcp.clients.operator import OperatorSession
from pykcp.types import Object

_log = logging.getLogger(__name__)

SECONDS = 30.0
"""For one call with all its retries; upstream's limit of a request."""
ATTEMPTS = 5
FIRST_PAUSE, PAUSE_FACTOR, JITTER = 0.5, 1.5, 0.2
_RETRIED = frozenset((429, 500, 504))
_MAX_ANSWER = 1 << 20
_CHECK_FILES = 60.0
"""How often to look whether certificate files were replaced."""


class WebhookError(Exception):
    """No answer that could be used."""


class _Transient(WebhookError):
    """Worth another attempt."""

    def __init__(self, text: str, pause: float | None = None) -> None:
        super().__init__(text)
        self.pause = pause


# --- calls --------------------------------------------------------------------


class ReviewClient:
    """Posts reviews to one webhook."""

    def __init__(self, endpoint: KubeconfigServer, seconds: float = SECONDS) -> None:
        self._endpoint, self._seconds = endpoint, seconds
        self._session: OperatorSession | None = None
        self._retired: list[OperatorSession] = []
        self._stamps: tuple[int, ...] = ()
        self._checked = float("-inf")

    @property
    def url(self) -> str:
        return self._endpoint.url

    async def close(self) -> None:
        for session in (*self._retired, self._session):
            if session is not None:
                await session.close()
        self._retired, self._session = [], None

    async def review(self, review: Object, check: Callable[[Object], Object]) -> Object:
        """The answer's status, as `check` reads it. Raises WebhookError."""
        body = orjson.dumps(review)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._with_retries(body, review, check)
        except TimeoutError:
            raise WebhookError(f"{self.url}: no answer within {self._seconds:g}s") from None

    async def _with_retries(
        self, body: bytes, review: Object, check: Callable[[Object], Object]
    ) -> Object:
        pause = FIRST_PAUSE
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return check(_matching(await self._post(body), review))
            except _Transient as error:
                if attempt == ATTEMPTS:
                    raise
                asked = error.pause
            wanted = pause * (1 + random.random() * JITTER) if asked is None else asked  # noqa: S311
            await asyncio.sleep(wanted)
            pause *= PAUSE_FACTOR
        raise AssertionError

    async def _post(self, body: bytes) -> bytes:
        endpoint = self._endpoint
        try:
            answer = await self._open_session().send(
                "POST",
                endpoint.url,
                self._headers(),
                body,
                limit=_MAX_ANSWER,
                proxy=endpoint.proxy,
                server_name=endpoint.server_name,
            )
        except OSError as error:  # files of the kubeconfig
            raise WebhookError(f"{self.url}: {error}") from error
        except SendFailed as error:
            kind = _Transient if error.is_lost else WebhookError
            raise kind(f"{self.url}: {error}") from error
        status = answer.status
        if 200 <= status < 300:
            if answer.body is None:
                raise WebhookError(f"{self.url}: answer is larger than {_MAX_ANSWER} bytes")
            return answer.body
        retry_after = answer.headers.get("Retry-After", "")
        pause = float(retry_after) if retry_after.isdecimal() else None
        if status in _RETRIED or pause is not None:
            raise _Transient(f"{self.url}: status {status}", pause)
        raise WebhookError(f"{self.url}: status {status}")

    def _headers(self) -> dict[str, str]:
        endpoint = self._endpoint
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        token = endpoint.token
        if endpoint.token_file:
            token = read(pathlib.Path(endpoint.token_file)).decode().strip()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif endpoint.username:
            pair = f"{endpoint.username}:{endpoint.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        return headers

    def _open_session(self) -> OperatorSession:
        now = time.monotonic()
        if self._session is not None and now - self._checked < _CHECK_FILES:
            return self._session
        self._checked = now
        stamps = _stamps(self._endpoint)
        if self._session is not None and stamps == self._stamps:
            return self._session
        context = make_context(self._endpoint)
        if self._session is not None:
            self._retired.append(self._session)  # calls may be under way
        self._stamps = stamps
        self._session = OperatorSession(context)  # `review` limits the time of all attempts
        return self._session


def _stamps(endpoint: KubeconfigServer) -> tuple[int, ...]:
    return tuple(pathlib.Path(name).stat().st_mtime_ns for name in endpoint.files)


def _matching(answer: bytes, review: Object) -> Object:
    """The status of an answer of the same kind and version as the question."""
    try:
        decoded = orjson.loads(answer)
    except orjson.JSONDecodeError:
        raise WebhookError("the webhook's answer is not JSON") from None
    if not isinstance(decoded, dict):
        raise WebhookError("the webhook's answer is not an object")
    for name in ("kind", "apiVersion"):
        if decoded.get(name) != review[name]:
            raise WebhookError(f"the webhook's answer has another {name} than {review[name]}")
    status = decoded.get("status")
    if status is not None and not isinstance(status, dict):
        raise WebhookError("the webhook's answer has a status that is not an object")
    return status or {}


def read_flag(status: Object, name: str) -> bool:
    """A boolean of a status. Raises WebhookError: nothing but `true` is true."""
    value = status.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise WebhookError(f"the webhook's answer has a status.{name} that is not a boolean")
    return value


def read_text(status: Object, name: str) -> str:
    value = status.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WebhookError(f"the webhook's answer has a {name} that is not a string")
    return value


def read_texts(status: Object, name: str) -> tuple[str, ...]:
    value = status.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise WebhookError(f"the webhook's answer has {name} that are not strings")
    return tuple(value)
