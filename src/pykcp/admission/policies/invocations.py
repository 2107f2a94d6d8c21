"""Which policies are to be evaluated for a request, with which bindings and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pykcp.admission.expressions.authorizing import Questions
from pykcp.admission.lookups import AdmissionLookups, show
from pykcp.admission.policies.params import (
    Misconfigured,
    ParamSource,
    collect_params,
    param_source,
)
from pykcp.admission.policies.policy import AdmissionPolicy, Binding, BoundPolicy
from pykcp.admission.subject import Subject, request_json
from pykcp.aio.slices import Slices
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.status import StatusError
from pykcp.registry.resource import Resource
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.admission.policies.remote_params import RemoteParams


@dataclass(frozen=True, slots=True)
class PolicyInvocation:
    policy: AdmissionPolicy
    binding: Binding
    target: Resource
    param: Object | None


class Refused(NamedTuple):
    """A policy that cannot be evaluated, and why."""

    policy: AdmissionPolicy
    binding: Binding | None
    message: str


@dataclass(frozen=True, slots=True)
class Policies:
    """What evaluating policies needs; shared by the mutating and the validating plug-in."""

    lookups: AdmissionLookups
    authorizer: Authorizer
    remote_params: RemoteParams | None = None
    """Parameters of policies of providers on other shards."""

    def questions(self, subject: Subject) -> Questions:
        return Questions(self.authorizer, subject.cluster, subject.request.context.user)

    async def invocations(
        self, subject: Subject, bound: Sequence[BoundPolicy]
    ) -> list[PolicyInvocation | Refused]:
        """In order. Policies that fail open are silent about their problems."""
        found: list[PolicyInvocation | Refused] = []
        slices = Slices(subject.cluster)
        for each in bound:
            policy, around = each.policy, self.lookups
            if slices.is_over():
                await slices.next()
            try:
                target = policy.criteria.find(subject, around.namespace_labels, around.equivalents)
                if target is None:
                    continue
                source = await param_source(
                    policy.param_kind, each.cluster, around, self.remote_params
                )
            except (StatusError, Misconfigured) as error:
                if not policy.fails_open:
                    found.append(Refused(policy, None, f"failed to configure policy: {error}"))
                continue
            for binding in each.bindings:
                try:
                    found += await self._bound(each, binding, target, source, subject)
                except (StatusError, Misconfigured) as error:
                    if not policy.fails_open:
                        why = f"failed to configure binding: {error}"
                        found.append(Refused(policy, binding, why))
        return found

    async def _bound(
        self,
        bound: BoundPolicy,
        binding: Binding,
        target: Resource,
        source: ParamSource | None,
        subject: Subject,
    ) -> list[PolicyInvocation]:
        around, criteria = self.lookups, binding.criteria
        if (
            criteria is not None
            and criteria.find(subject, around.namespace_labels, around.equivalents) is None
        ):
            return []
        await show(subject, target)
        params = await collect_params(bound, binding, source, subject)
        return [PolicyInvocation(bound.policy, binding, target, param) for param in params]


def values_for(
    invocation: PolicyInvocation,
    subject: Subject,
    namespace: Object | None,
    questions: Questions | None,
) -> dict[str, Any]:
    """What expressions see; without `questions`, what is sent of that to a worker process."""
    target = invocation.target
    obj, old = subject.sent(target) if questions is None else subject.shown(target)
    values: dict[str, Any] = {
        "object": obj,
        "oldObject": old,
        "request": request_json(subject, target),
        "namespaceObject": namespace,
        "params": invocation.param,
    }
    if questions is not None:
        values["authorizer"] = questions.value()
        values["authorizer.requestResource"] = questions.resource_check(
            subject.resource.group,
            subject.resource.plural,
            subject.subresource,
            subject.namespace,
            subject.name,
        )
    return values
