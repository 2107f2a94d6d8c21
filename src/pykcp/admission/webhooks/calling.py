"""Shared by validating and mutating webhooks: selection, and results of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson

from pykcp.admission.expressions.authorizing import Questions
from pykcp.admission.expressions.evaluating import (
    MATCH_BUDGET,
    Evaluation,
    EvaluationLimits,
    conditions_hold,
)
from pykcp.admission.lookups import AdmissionLookups, show
from pykcp.admission.policies.costly import evaluated
from pykcp.admission.subject import Subject, request_json
from pykcp.admission.webhooks.client import AdmissionWebhookClient, WebhookCallFailed
from pykcp.admission.webhooks.review import (
    NO_KNOWN_VERSION,
    BadAnswer,
    ReviewResponse,
    question,
    review_version,
    verified,
)
from pykcp.admission.webhooks.webhook import DEFAULT_VISIBILITY, AdmissionWebhook
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import global_name
from pykcp.clients.outbound import Tenant
from pykcp.machinery.status import (
    BadRequest,
    InternalError,
    StatusError,
    go_quote,
)
from pykcp.registry.codec import with_cluster
from pykcp.registry.context import RequestContext
from pykcp.registry.resource import Resource
from pykcp.types import Object


class AdmissionWebhookFailed(Exception):
    """The webhook could not be called, or gave no sensible answer."""

    def __init__(self, webhook: AdmissionWebhook, why: str) -> None:
        super().__init__(f"failed calling webhook {go_quote(webhook.name)}: {why}")

    def status(self) -> StatusError:
        return InternalError(str(self))


@dataclass(frozen=True, slots=True)
class Callers:
    """What calling needs; shared by the mutating and the validating plug-in."""

    client: AdmissionWebhookClient
    lookups: AdmissionLookups
    authorizer: Authorizer

    def questions(self, subject: Subject) -> Questions:
        return Questions(self.authorizer, subject.cluster, subject.request.context.user)

    async def target(
        self, webhook: AdmissionWebhook, subject: Subject, questions: Questions
    ) -> Resource | None:
        """The resource to call the webhook for, or None if it is not to be called."""
        around = self.lookups
        target = webhook.criteria.find(subject, around.namespace_labels, around.equivalents)
        if target is None:
            return None
        await show(subject, target)
        if not webhook.conditions:
            return target

        def holds(limits: EvaluationLimits) -> tuple[bool, str]:
            values = condition_values(subject, target, questions)
            evaluation = Evaluation(values, {}, MATCH_BUDGET, limits)
            return conditions_hold(webhook.conditions, evaluation, fail_open=webhook.fails_open)

        expressions = [compiled.expression for compiled in webhook.conditions]
        matches, error = await evaluated(
            questions,
            subject,
            holds,
            lambda: sent_values(subject, target),
            ("conditions", expressions, DEFAULT_VISIBILITY, webhook.fails_open),
        )
        if error:
            raise subject.forbidden(error)
        return target if matches else None

    async def ask(
        self, webhook: AdmissionWebhook, subject: Subject, target: Resource, *, mutating: bool
    ) -> ReviewResponse:
        """The webhook's answer; WebhookFailed if there is none, a refusal if it is one."""
        context = subject.request.context
        if context.dry_run and not webhook.has_dry_run:
            raise BadRequest(f"admission webhook {go_quote(webhook.name)} does not support dry run")
        version = review_version(webhook.review_versions)
        if version is None:
            why = f"could not create admission objects: {NO_KNOWN_VERSION}"
            raise AdmissionWebhookFailed(webhook, why)
        uid = str(uuid4())
        body = question(subject, target, encoded(subject, target), version=version, uid=uid)
        try:
            review = await self.client.call(webhook, body, version, tenant_of(context))
        except WebhookCallFailed as error:
            raise AdmissionWebhookFailed(webhook, f"failed to call webhook: {error}") from error
        try:
            answer = verified(review, version, uid, mutating=mutating)
        except BadAnswer as error:
            why = f"received invalid webhook response: {error}"
            raise AdmissionWebhookFailed(webhook, why) from error
        for key, value in answer.annotations.items():
            context.audit.setdefault(f"{webhook.name}/{key}", value)
        for text in answer.warnings:
            context.warn(text)
        if not answer.allowed:
            raise refusal(webhook.name, answer.result)
        return answer


def tenant_of(context: RequestContext) -> Tenant:
    """For whom a webhook is called."""
    return Tenant(context.cluster, global_name(context.user, context.cluster))


def encoded(subject: Subject, target: Resource) -> tuple[bytes, bytes]:
    """The new and the old object as webhooks see them; made once for all that see the same."""
    found = subject.encoded.get(target)
    if found is None:
        obj, old = subject.sent(target, cluster=subject.cluster)
        found = subject.encoded[target] = orjson.dumps(obj), orjson.dumps(old)
    return found


def _values(subject: Subject, target: Resource, obj: Any, old: Any) -> dict[str, Any]:
    return {
        "object": obj,
        "oldObject": old,
        "request": request_json(subject, target),
        "namespaceObject": None,
    }


def sent_values(subject: Subject, target: Resource) -> dict[str, Any]:
    """What match conditions see, to be sent to a worker process, without the authorizer."""
    return _values(subject, target, *subject.sent(target, cluster=subject.cluster))


def condition_values(subject: Subject, target: Resource, questions: Questions) -> dict[str, Any]:
    """What match conditions of a webhook see."""
    cluster = subject.cluster
    obj, old = (one and with_cluster(one, cluster) for one in subject.shown(target))
    return {
        **_values(subject, target, obj, old),
        "authorizer": questions.value(),
        "authorizer.requestResource": questions.resource_check(
            subject.resource.group,
            subject.resource.plural,
            subject.subresource,
            subject.namespace,
            subject.name,
        ),
    }


class RejectedByWebhook(StatusError):
    """A webhook's own Status."""

    def __init__(self, status: Object) -> None:
        super().__init__(status["message"], code=status["code"], reason=status.get("reason") or "")
        self._status = status

    def details(self) -> Object | None:
        found: Object | None = self._status.get("details")
        return found

    def to_json(self) -> Object:
        out = super().to_json()
        metadata = self._status.get("metadata")
        if isinstance(metadata, dict):
            out["metadata"] = metadata
        out["status"] = self._status["status"]
        return out


def refusal(name: str, result: Object | None) -> RejectedByWebhook:
    """The Status that a refused client gets, made of what the webhook said."""
    denied = f"admission webhook {go_quote(name)} denied the request"
    status = dict(result or {})
    code = status.get("code")
    status["code"] = code if isinstance(code, int) and 400 <= code <= 999 else 400
    if status.get("status") in (None, "", "Success"):
        status["status"] = "Failure"
    said, reason = status.get("message"), status.get("reason")
    if said:
        status["message"] = f"{denied}: {said}"
    elif reason:
        status["message"] = f"{denied}: {reason}"
    else:
        status["message"] = f"{denied} without explanation"
    if not isinstance(status.get("details"), dict):
        status.pop("details", None)
    return RejectedByWebhook(status)
