"""Mutating webhooks: one after the other, each sees what the one before it did."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pykcp.admission.annotations import go_json
from pykcp.admission.patches import PatchFailed, apply_patch, read_patched
from pykcp.admission.reinvocation import leave, reinvocation_of, replace_contents
from pykcp.admission.subject import Subject, stamped
from pykcp.admission.surroundings import converted
from pykcp.admission.webhooks.calling import Callers, WebhookFailed
from pykcp.admission.webhooks.review import Answer
from pykcp.admission.webhooks.webhook import Webhook
from pykcp.aio.turns import heavy_turn
from pykcp.machinery.patch import jsonpatch
from pykcp.machinery.status import InternalError, StatusError, go_quote
from pykcp.registry import codec
from pykcp.registry.admitting import AdmissionRequest
from pykcp.registry.resource import Resource

_LOG = logging.getLogger(__name__)
_MUTATED = "mutation.webhook.admission.k8s.io/"
_PATCHED = "patch.webhook.admission.k8s.io/"
MAX_PATCH = 3 * 1024 * 1024
"""As long as the body of a request."""
MAX_CONTAINERS = 300_000
"""Objects and arrays in a patch: more take longer to decode than others should wait."""
_HEAVY = 64 * 1024


class MutatingWebhooks:
    name = "MutatingAdmissionWebhook"

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def mutate(self, request: AdmissionRequest, hooks: Sequence[Webhook]) -> None:
        subject = Subject(request)
        questions = self._callers.questions(subject)
        again = reinvocation_of(request)
        rounds = again.enter(self.name, request.obj)
        for index, webhook in enumerate(hooks):
            target = await self._callers.target(webhook, subject, questions)
            if target is None or (again.is_second and webhook.uid not in rounds.due):
                continue
            place = f"round_{int(again.is_second)}_index_{index}"
            if await self._call(webhook, subject, target, place):
                rounds.changed()
                again.is_wanted = True
            if webhook.reinvoked:
                rounds.waiting.add(webhook.uid)
        leave(rounds, request.obj)

    async def _call(self, webhook: Webhook, subject: Subject, target: Resource, place: str) -> bool:
        """Whether the object was changed."""
        audit = subject.request.context.audit
        changed = False
        try:
            answer = await self._callers.ask(webhook, subject, target, mutating=True)
            changed = await _changed(webhook, subject, target, answer, place)
        except WebhookFailed as error:
            if not webhook.fails_open:
                raise error.status() from error
            _LOG.warning("%s; failing open", error)
            audit[f"failed-open.{_MUTATED}{place}"] = webhook.name
        finally:
            audit[_MUTATED + place] = go_json(
                {
                    "configuration": webhook.configuration,
                    "webhook": webhook.name,
                    "mutated": changed,
                }
            )
        return changed


async def _changed(
    webhook: Webhook, subject: Subject, target: Resource, answer: Answer, place: str
) -> bool:
    """Apply the patch of an answer; whether it made a difference."""
    operations = await _operations(webhook, answer, subject.cluster)
    if not operations:
        return False
    request, own = subject.request, subject.resource
    is_own = subject.is_own(target)
    if request.obj is None:
        raise InternalError(
            f"admission webhook {go_quote(webhook.name)} attempted to modify the object, "
            "which is not supported for this operation"
        )
    if answer.patch_type != "JSONPatch":
        raise WebhookFailed(webhook, f"unsupported patch type {go_quote(answer.patch_type)}")
    before, _ = subject.shown(target)
    assert before is not None
    if not is_own:
        before = codec.copy(before)  # another version's schema must not prune ours
    try:
        patched = apply_patch(stamped(before, subject.cluster), operations)
    except PatchFailed as error:
        raise InternalError(str(error)) from error
    new = await read_patched(target, patched, subject.cluster, kind=subject.kind)
    request.context.audit_bodies[_PATCHED + place] = go_json(
        {
            "configuration": webhook.configuration,
            "webhook": webhook.name,
            "patch": operations,
            "patchType": answer.patch_type,
        }
    )
    if new == before:
        return False
    if not is_own:
        back = await converted(new, target, own, subject.cluster)
        assert back is not None
        new = await read_patched(own, back, subject.cluster)
    replace_contents(request.obj, new)
    subject.changed()
    return True


async def _operations(webhook: Webhook, answer: Answer, tenant: str) -> list[Any]:
    patch = answer.patch
    if not patch:
        return []
    if len(patch) < _HEAVY:
        return _decoded_patch(webhook, patch)
    if len(patch) > MAX_PATCH:
        raise _undecodable(webhook, f"it is larger than {MAX_PATCH} bytes")
    if patch.count(b"[") + patch.count(b"{") > MAX_CONTAINERS:
        raise _undecodable(webhook, f"it has more than {MAX_CONTAINERS} objects and arrays")
    async with heavy_turn(tenant):
        return _decoded_patch(webhook, patch)


def _decoded_patch(webhook: Webhook, patch: bytes) -> list[Any]:
    try:
        return jsonpatch.decode(patch, strict=False)[0]
    except StatusError as error:
        raise _undecodable(webhook, error.message) from error


def _undecodable(webhook: Webhook, why: str) -> WebhookFailed:
    return WebhookFailed(webhook, f"received undecodable patch in webhook response: {why}")
