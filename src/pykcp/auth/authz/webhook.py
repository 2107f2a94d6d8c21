"""Webhook authorization (SubjectAccessReview).

The webhook is asked for one effective user at a time; the logical cluster is in the user's extra.
Answers are cached for the times that the flags set. A failure is no opinion, as upstream: it
allows nothing, and the next authorizer of `--authorization-order` decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import orjson

from pykcp.auth.authz.attributes import ALLOW, Attributes, Decision, Verdict
from pykcp.auth.files import CredentialError
from pykcp.auth.user import MASTERS
from pykcp.auth.webhook_client import ReviewClient, WebhookError, read_flag, read_text
from pykcp.caching import BoundedCache
from pykcp.types import Object

_log = logging.getLogger(__name__)
VERSIONS = ("v1", "v1beta1")
CLUSTER_KEYS = ("authorization.kubernetes.io/cluster-name", "authorization.kcp.io/cluster-name")
"""Where the review says which logical cluster it is about; the first is kcp's old name."""
_REMEMBER = 8192
_CACHED_SIZE = 10_000
"""Longer questions are not remembered: they may be meant to fill the memory."""
_BOTH = "webhook subject access review returned both allow and deny response"


class WebhookAuthorizer:
    """The `webhook` of an `Authorizer`."""

    def __init__(
        self,
        client: ReviewClient,
        version: str,
        authorized_ttl: float = 300.0,
        unauthorized_ttl: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if version not in VERSIONS:
            raise ValueError(f'unsupported webhook authorizer version "{version}"')
        self._client, self._version, self._clock = client, version, clock
        self._ttls = {True: authorized_ttl, False: unauthorized_ttl}
        self._known: BoundedCache[bytes, tuple[Decision, float]] = BoundedCache(
            "authorization-webhook", _REMEMBER
        )

    async def __call__(self, cluster: str, attributes: Attributes) -> Decision:
        if MASTERS in attributes.user.groups:
            return ALLOW  # kcp's webhook is never asked about them, wherever it stands
        spec = self._spec(cluster, attributes)
        key = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        known = self._known.get(key)
        if known is not None and self._clock() < known[1]:
            return known[0]
        review = {
            "kind": "SubjectAccessReview",
            "apiVersion": f"authorization.k8s.io/{self._version}",
            "metadata": {},
            "spec": spec,
            "status": {"allowed": False},
        }
        try:
            decision = _decision(await self._client.review(review, _check))
        except (WebhookError, CredentialError) as error:
            _log.error("Failed to make webhook authorizer request: %s", error)
            return Decision(Verdict.NO_OPINION, error=str(error))
        ttl = self._ttls[decision.allowed]
        if (
            ttl > 0
            and sum(len(part) for part in attributes[1:7]) + len(attributes.name) < _CACHED_SIZE
        ):
            self._known.put(key, (decision, self._clock() + ttl))
        return decision

    async def close(self) -> None:
        await self._client.close()

    def _spec(self, cluster: str, attributes: Attributes) -> Object:
        user = attributes.user
        extra = {key: list(values) for key, values in user.extra.items()}
        if cluster:
            extra |= {key: [cluster] for key in CLUSTER_KEYS}
        spec: Object = {"user": user.name}
        if user.groups:
            spec["groups" if self._version == "v1" else "group"] = list(user.groups)
        if extra:
            spec["extra"] = extra
        if user.uid:
            spec["uid"] = user.uid
        if attributes.is_resource:
            asked = {
                "namespace": attributes.namespace,
                "verb": attributes.verb,
                "group": attributes.group,
                "version": attributes.version,
                "resource": attributes.resource,
                "subresource": attributes.subresource,
                "name": attributes.name,
            }
            spec["resourceAttributes"] = {name: text for name, text in asked.items() if text}
        else:
            spec["nonResourceAttributes"] = {"path": attributes.path, "verb": attributes.verb}
        return spec


def _check(status: Object) -> Object:
    read_flag(status, "allowed")
    read_flag(status, "denied")
    read_text(status, "reason")
    return status


def _decision(status: Object) -> Decision:
    allowed, denied = read_flag(status, "allowed"), read_flag(status, "denied")
    reason = read_text(status, "reason")
    if denied:
        return Decision(Verdict.DENY, reason, error=_BOTH if allowed else "")
    return Decision(Verdict.ALLOW if allowed else Verdict.NO_OPINION, reason)
