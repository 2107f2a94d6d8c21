"""Validating webhooks: called concurrently; the first rejection in order is returned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pykcp.admission.subject import Subject
from pykcp.admission.webhooks.calling import AdmissionWebhookFailed, Callers
from pykcp.admission.webhooks.webhook import AdmissionWebhook
from pykcp.aio.slices import Slices
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest

_LOG = logging.getLogger(__name__)
_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/"


class ValidatingWebhooks:
    name = "ValidatingAdmissionWebhook"

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def validate(self, request: AdmissionRequest, hooks: Sequence[AdmissionWebhook]) -> None:
        subject = Subject(request)
        questions = self._callers.questions(subject)
        relevant: list[tuple[AdmissionWebhook, Resource]] = []
        slices = Slices(subject.cluster)
        for webhook in hooks:
            if slices.is_over():
                await slices.next()
            target = await self._callers.target(webhook, subject, questions)
            if target is not None:
                relevant.append((webhook, target))
        if len(relevant) == 1:
            await self._call(*relevant[0], subject, 0)
            return
        calls = (self._call(*each, subject, index) for index, each in enumerate(relevant))
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _call(
        self, webhook: AdmissionWebhook, target: Resource, subject: Subject, index: int
    ) -> None:
        try:
            await self._callers.ask(webhook, subject, target, mutating=False)
        except AdmissionWebhookFailed as error:
            if not webhook.fails_open:
                raise error.status() from error
            _LOG.warning("%s; failing open", error)
            subject.request.context.audit[f"{_FAILED_OPEN}round_0_index_{index}"] = webhook.name
