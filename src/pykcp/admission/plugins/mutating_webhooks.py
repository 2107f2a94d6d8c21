"""Mutating webhooks: called one after the other, each with the changes of the previous ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import orjson

from pykcp.admission.annotations import go_json
from pykcp.admission.lookups import converted
from pykcp.admission.patches import patched_document, read_patched
from pykcp.admission.reinvocation import leave, reinvocation_of, replace_contents
from pykcp.admission.subject import Subject
from pykcp.admission.webhooks.calling import AdmissionWebhookFailed, Callers
from pykcp.admission.webhooks.review import ReviewResponse
from pykcp.admission.webhooks.webhook import AdmissionWebhook
from pykcp.aio.turns import heavy_turn
from pykcp.machinery.patch import jsonpatch
from pykcp.machinery.schema.growth import Outgrown, bounded
from pykcp.machinery.status import InternalError, StatusError, go_quote
from pykcp.registry import codec
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest

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

    async def mutate(self, request: AdmissionRequest, hooks: Sequence[AdmissionWebhook]) -> None:
        subject = Subject(request)
        questions = self._callers.questions(subject)
        again = reinvocation_of(request)
        rounds = again.enter(self.name, request)
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
        leave(rounds, request)

    async def _call(
        self, webhook: AdmissionWebhook, subject: Subject, target: Resource, place: str
    ) -> bool:
        """Whether the object was changed."""
        audit = subject.request.context.audit
        changed = False
        try:
            answer = await self._callers.ask(webhook, subject, target, mutating=True)
            changed = await _changed(webhook, subject, target, answer, place)
        except AdmissionWebhookFailed as error:
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
    webhook: AdmissionWebhook,
    subject: Subject,
    target: Resource,
    answer: ReviewResponse,
    place: str,
) -> bool:
    """Apply the patch of an answer; whether it made a difference."""
    request = subject.request
    if not answer.patch:
        return False
    _check_size(webhook, answer.patch)
    if isinstance(request, LargeRequest) and subject.is_own(target):
        return await _changed_elsewhere(webhook, request, subject, answer, place)
    if request.can_restart and subject.resource.is_large(len(answer.patch)):
        raise Outgrown
    operations = await _operations(webhook, answer, subject.cluster)
    if not operations:
        return False
    _check_patch(webhook, request, answer)
    before, _ = subject.shown(target)
    assert before is not None
    is_own = subject.is_own(target)
    if not is_own:
        before = codec.copy(before)  # the schema of another version must not prune the object
    can_restart = request.can_restart and subject.resource.has_workers
    with bounded(can_restart):  # a short patch may copy much
        patched = patched_document(before, operations, subject.cluster)
    new = await read_patched(
        target, patched, subject.cluster, kind=subject.kind, can_restart=can_restart
    )
    _note(request, webhook, answer, place)
    if new == before:
        return False
    if not is_own:
        back = await converted(new, target, subject.resource, subject.cluster)
        assert back is not None
        new = await read_patched(subject.resource, back, subject.cluster)
    assert request.obj is not None
    replace_contents(request.obj, new)
    subject.changed()
    return True


async def _changed_elsewhere(
    webhook: AdmissionWebhook,
    request: LargeRequest,
    subject: Subject,
    answer: ReviewResponse,
    place: str,
) -> bool:
    """The same for an object that is too large for the event loop."""
    _check_patch(webhook, request, answer)
    work = subject.resource.services.large
    assert work is not None
    patched = await work.patched(subject.resource, request.context, request.text(), answer.patch)
    if patched.problem:
        raise _undecodable(webhook, patched.problem)
    _note(request, webhook, answer, place)
    if not patched.text:
        return False
    request.replace(patched.text)
    subject.changed()
    return True


def _check_patch(
    webhook: AdmissionWebhook, request: AdmissionRequest, answer: ReviewResponse
) -> None:
    if request.operation == "DELETE" or not request.has_object:
        raise InternalError(
            f"admission webhook {go_quote(webhook.name)} attempted to modify the object, "
            "which is not supported for this operation"
        )
    if answer.patch_type != "JSONPatch":
        raise AdmissionWebhookFailed(
            webhook, f"unsupported patch type {go_quote(answer.patch_type)}"
        )


def _note(
    request: AdmissionRequest, webhook: AdmissionWebhook, answer: ReviewResponse, place: str
) -> None:
    """Keep the patch for the audit trail."""
    request.context.audit_bodies[_PATCHED + place] = lambda: go_json(
        {
            "configuration": webhook.configuration,
            "webhook": webhook.name,
            "patch": orjson.Fragment(answer.patch),
            "patchType": answer.patch_type,
        }
    )


def _check_size(webhook: AdmissionWebhook, patch: bytes) -> None:
    if len(patch) > MAX_PATCH:
        raise _undecodable(webhook, f"it is larger than {MAX_PATCH} bytes")
    is_heavy = len(patch) > MAX_CONTAINERS
    if is_heavy and patch.count(b"[") + patch.count(b"{") > MAX_CONTAINERS:
        raise _undecodable(webhook, f"it has more than {MAX_CONTAINERS} objects and arrays")


async def _operations(webhook: AdmissionWebhook, answer: ReviewResponse, tenant: str) -> list[Any]:
    patch = answer.patch
    if len(patch) < _HEAVY:
        return _decoded_patch(webhook, patch)
    async with heavy_turn(tenant):
        return _decoded_patch(webhook, patch)


def _decoded_patch(webhook: AdmissionWebhook, patch: bytes) -> list[Any]:
    try:
        return jsonpatch.decode(patch, strict=False)[0]
    except StatusError as error:
        raise _undecodable(webhook, error.message) from error


def _undecodable(webhook: AdmissionWebhook, why: str) -> AdmissionWebhookFailed:
    return AdmissionWebhookFailed(webhook, f"received undecodable patch in webhook response: {why}")
