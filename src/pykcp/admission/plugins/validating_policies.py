"""ValidatingAdmissionPolicy: expressions that deny, warn or audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from pykcp.admission.annotations import go_json
from pykcp.admission.policies.costly import evaluated
from pykcp.admission.policies.invocations import Policies, PolicyInvocation, Refused, values_for
from pykcp.admission.policies.policy import AdmissionPolicy, Binding, BoundPolicy
from pykcp.admission.policies.validating import PolicyDecision, PolicyVerdict, judge
from pykcp.admission.subject import Subject
from pykcp.aio.slices import Slices
from pykcp.machinery.status import Cause, Forbidden
from pykcp.registry.context import RequestContext
from pykcp.registry.verbs.admitting import AdmissionRequest

_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(slots=True)
class _Collected:
    """What all policies together came to."""

    denied: tuple[str, str] | None = None
    """Message and reason of the first denial."""
    annotations: dict[str, list[str]] = field(default_factory=dict)

    def deny(
        self, policy: AdmissionPolicy, binding: Binding | None, message: str, reason: str
    ) -> None:
        if self.denied is None:
            bound = f" with binding '{binding.name}'" if binding is not None else ""
            text = f"ValidatingAdmissionPolicy '{policy.name}'{bound} denied request: {message}"
            self.denied = text, reason or "Invalid"


class ValidatingPolicies:
    name = "ValidatingAdmissionPolicy"

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    async def validate(self, request: AdmissionRequest, hooks: Sequence[BoundPolicy]) -> None:
        subject = Subject(request)
        invocations = await self._policies.invocations(subject, hooks)
        if not invocations:
            return
        collected = _Collected()
        await self._evaluate(subject, invocations, collected)
        for key, values in collected.annotations.items():
            request.context.audit.setdefault(key, ", ".join(values))
        if collected.denied is not None:
            raise _denial(subject, *collected.denied)

    async def _evaluate(
        self, subject: Subject, invocations: list[PolicyInvocation | Refused], collected: _Collected
    ) -> None:
        questions = self._policies.questions(subject)
        namespace = None
        if any(isinstance(each, PolicyInvocation) for each in invocations):
            namespace = self._policies.lookups.namespace_object(subject)
        slices = Slices(subject.cluster)
        for each in invocations:
            if slices.is_over():
                await slices.next()
            if isinstance(each, Refused):
                collected.deny(each.policy, each.binding, each.message, "")
                continue
            verdict = await evaluated(
                questions,
                subject,
                partial(judge, each, subject, namespace, questions),
                partial(values_for, each, subject, namespace, None),
                ("judge", each.policy.source),
                is_large=each.policy.is_large,
            )
            _enforce(each, verdict, subject.request.context, collected)


def _enforce(
    invocation: PolicyInvocation,
    verdict: PolicyVerdict,
    context: RequestContext,
    collected: _Collected,
) -> None:
    policy, binding = invocation.policy, invocation.binding
    for decision in verdict.decisions:
        for action in binding.actions:
            if action == "Deny":
                collected.deny(policy, binding, decision.message, decision.reason)
            elif action == "Audit":
                context.audit.setdefault(_FAILURE, _failure(binding, decision))
            elif action == "Warn":
                context.warn(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with "
                    f"binding '{binding.name}': {decision.message}"
                )
    for message in verdict.annotation_errors:
        collected.deny(policy, binding, message, "")
    for key, value in verdict.annotations:
        values = collected.annotations.setdefault(f"{policy.name}/{key}", [])
        if value not in values:
            values.append(value)


def _failure(binding: Binding, decision: PolicyDecision) -> str:
    return go_json(
        [
            {
                "message": decision.message,
                "policy": binding.policy,
                "binding": binding.name,
                "expressionIndex": decision.index,
                "validationActions": list(binding.actions),
            }
        ]
    )


def _denial(subject: Subject, message: str, reason: str) -> Forbidden:
    refusal = subject.forbidden(message)
    refusal.reason = reason
    refusal.code = _CODES.get(reason, 422)
    refusal.causes = (Cause("", message),)
    return refusal
