"""The audit webhook: sends batches of events as EventLists."""

from __future__ import annotations

import asyncio
import base64
import logging
import pathlib
import random
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykcp.clients.errors import SendFailed
from pykcp.clients.operator import OperatorSession
from pykcp.observe.audit.lines import event_list
from pykcp.observe.audit.policy import PolicyError
from pykcp.wire.tls_trust import verifying_context

_log = logging.getLogger(__name__)

TRIES = 5
FACTOR, JITTER = 1.5, 0.2
"""Upstream's backoff: so many tries, each pause half as long again as the last."""
REQUEST_SECONDS = 30.0
_MAX_ANSWER = 1 << 20


class AuditWebhookFailed(Exception):
    """The events could not be delivered after all retries."""


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """Where to, and as whom; out of a kubeconfig."""

    url: str
    headers: dict[str, str]
    context: ssl.SSLContext | None


def load_target(path: str) -> AuditTarget:
    """The current context of a kubeconfig file. Raises PolicyError."""
    import yaml

    try:
        config = yaml.safe_load(pathlib.Path(path).read_text())
        named = {
            kind: {entry["name"]: entry[kind[:-1]] or {} for entry in config.get(kind) or ()}
            for kind in ("clusters", "contexts", "users")
        }
        context = named["contexts"][config["current-context"]]
        cluster = named["clusters"][context["cluster"]]
        user = named["users"].get(context.get("user", ""), {})
        return _target(pathlib.Path(path).parent, cluster, user)
    except (OSError, KeyError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
        raise PolicyError(f"initializing audit webhook: {path}: {error!r}") from error


def _target(folder: pathlib.Path, cluster: dict[str, Any], user: dict[str, Any]) -> AuditTarget:
    url = str(cluster["server"])
    headers = {"content-type": "application/json", "accept": "application/json, */*"}
    token = user.get("token") or ""
    if user.get("tokenFile"):
        token = (folder / user["tokenFile"]).read_text().strip()
    if token:
        headers["authorization"] = f"Bearer {token}"
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    context = _ssl(folder, cluster, user) if url.startswith("https:") else None
    return AuditTarget(url, headers, context)


def _ssl(folder: pathlib.Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _content(folder, cluster, "certificate-authority")
    context = verifying_context(authority.decode() if authority else "")
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _content(folder, user, "client-certificate")
    key = _content(folder, user, "client-key")
    if certificate and key:
        # The standard library reads them from files only; this one is private and gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _content(folder: pathlib.Path, entry: dict[str, Any], name: str) -> bytes:
    if entry.get(f"{name}-data"):
        return base64.b64decode(entry[f"{name}-data"])
    if entry.get(name):
        return (folder / str(entry[name])).read_bytes()
    return b""


class AuditWebhook:
    """Sends events; a failed send is tried again with growing pauses."""

    def __init__(
        self,
        target: AuditTarget,
        initial_backoff: float,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._target = target
        self._backoff = initial_backoff
        self._jitter = jitter
        self._session = OperatorSession(target.context, REQUEST_SECONDS)

    async def send(self, lines: list[bytes]) -> None:
        """Raises WebhookFailed."""
        body = event_list(lines)
        pause = self._backoff
        failure = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(pause * (1 + JITTER * self._jitter()))
                pause *= FACTOR
            try:
                failure = await self._post(body)
            except TimeoutError:
                failure = f"no answer within {REQUEST_SECONDS:g}s"
            except (OSError, SendFailed) as error:
                failure = str(error)
            if not failure:
                return
        raise AuditWebhookFailed(f"the audit webhook took no events in {TRIES} tries: {failure}")

    async def _post(self, body: bytes) -> str:
        """ "" if it was taken, otherwise why not."""
        target = self._target
        answer = await self._session.send(
            "POST", target.url, target.headers, body, limit=_MAX_ANSWER, follows_redirects=True
        )
        if 200 <= answer.status < 300:
            return ""
        text = (answer.body or b"")[:200].decode("utf-8", "replace")
        return f"HTTP {answer.status} {text}"

    async def close(self) -> None:
        await self._session.close()
