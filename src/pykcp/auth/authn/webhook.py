"""Webhook token authentication (TokenReview).

Answers, positive and negative, are cached for the time that the flag sets; failures are not, and
reject the token. Concurrent requests with the same token share one call.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pykcp.aio.owner import spawn
from pykcp.auth.authn.interface import Authenticated, CredentialRejected
from pykcp.auth.files import CredentialError
from pykcp.auth.user import User
from pykcp.auth.webhook_client import (
    ReviewClient,
    WebhookError,
    read_flag,
    read_text,
    read_texts,
)
from pykcp.caching import BoundedCache
from pykcp.types import Object

_log = logging.getLogger(__name__)
VERSIONS = ("v1", "v1beta1")
_REMEMBER = 32768


@dataclass(frozen=True, slots=True)
class _Answer:
    user: User | None
    audiences: tuple[str, ...]
    error: str
    until: float


class WebhookTokens:
    def __init__(
        self,
        client: ReviewClient,
        version: str,
        api_audiences: Sequence[str],
        cache_ttl: float = 120.0,
    ) -> None:
        if version not in VERSIONS:
            raise ValueError(f'unsupported authentication webhook version "{version}"')
        self._client, self._ttl = client, cache_ttl
        self._api_version = f"authentication.k8s.io/{version}"
        self._api_audiences = tuple(api_audiences)
        self._known: BoundedCache[bytes, _Answer] = BoundedCache("token-webhook", _REMEMBER)
        self._asking: dict[bytes, asyncio.Task[_Answer]] = {}

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        del (
            cluster
        )  # the webhook does not get the cluster, as in kcp: its users are valid in all clusters
        key = _key(token, audiences)
        answer = self._known.get(key)
        if answer is None or answer.until <= now:
            answer = await self._shared(key, token, audiences, now)
        return self._judge(answer, audiences)

    async def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await self._client.close()

    async def _shared(
        self, key: bytes, token: str, audiences: Sequence[str], now: float
    ) -> _Answer:
        """One question for all who hold the token; one of them leaving does not end it."""
        task = self._asking.get(key)
        if task is None:
            task = spawn(self._ask(token, audiences, now), "token webhook")
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        try:
            answer = await asyncio.shield(task)
        except (WebhookError, CredentialError) as error:
            _log.error("Failed to make webhook authenticator request: %s", error)
            raise CredentialRejected(str(error)) from error
        if self._ttl > 0 and not answer.error:
            self._known.put(key, answer)
        return answer

    async def _ask(self, token: str, audiences: Sequence[str], now: float) -> _Answer:
        spec: Object = {"token": token}
        if audiences:
            spec["audiences"] = list(audiences)
        review = {
            "kind": "TokenReview",
            "apiVersion": self._api_version,
            "metadata": {},
            "spec": spec,
            "status": {"user": {}},
        }
        status = await self._client.review(review, _check)
        user = _read_user(status.get("user")) if read_flag(status, "authenticated") else None
        return _Answer(
            user, read_texts(status, "audiences"), read_text(status, "error"), now + self._ttl
        )

    def _judge(self, answer: _Answer, audiences: Sequence[str]) -> Authenticated | None:
        common: tuple[str, ...] = ()
        if audiences:
            held = answer.audiences or self._api_audiences
            common = tuple(one for one in audiences if one in held)
            if not common:
                return None
        if answer.user is None:
            if answer.error:
                raise CredentialRejected(answer.error)
            return None
        return Authenticated(answer.user, common)


def _key(token: str, audiences: Sequence[str]) -> bytes:
    digest = hashlib.sha256(token.encode())
    for audience in audiences:
        encoded = audience.encode()
        digest.update(b"\0%d\0" % len(encoded))
        digest.update(encoded)
    return digest.digest()


def _check(status: Object) -> Object:
    """Read everything once, so that a bad answer is an error before it is an identity."""
    read_text(status, "error")
    read_texts(status, "audiences")
    if read_flag(status, "authenticated"):
        _read_user(status.get("user"))
    return status


def _read_user(value: object) -> User:
    if not isinstance(value, dict):
        raise WebhookError("the webhook's answer has no user")
    extra = value.get("extra") or {}
    if not isinstance(extra, dict):
        raise WebhookError("the webhook's answer has extra that is not an object")
    name = read_text(value, "username")
    if not name:
        raise WebhookError("the webhook's answer has a user without a name")
    return User(
        name,
        read_text(value, "uid"),
        read_texts(value, "groups"),
        {key: read_texts(extra, key) for key in extra},
    )
