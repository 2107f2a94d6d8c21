"""MutatingAdmissionPolicy: what expressions change in an object."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson

from pykcp.admission.expressions.authorizing import Answers, Questions
from pykcp.admission.expressions.evaluating import (
    MATCH_BUDGET,
    Evaluation,
    EvaluationLimits,
    conditions_hold,
)
from pykcp.admission.lookups import converted, show
from pykcp.admission.patches import read_patched
from pykcp.admission.policies.costly import evaluated, seen_by
from pykcp.admission.policies.invocations import Policies, PolicyInvocation, Refused, values_for
from pykcp.admission.policies.mutating import MutationFailed, patch_of, patched_object
from pykcp.admission.policies.policy import BoundPolicy, Mutation
from pykcp.admission.reinvocation import leave, reinvocation_of, replace_contents
from pykcp.admission.subject import Subject
from pykcp.aio.slices import Slices
from pykcp.machinery.schema.growth import Outgrown
from pykcp.machinery.status import Cause, Forbidden
from pykcp.registry import codec
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.registry.verbs.large_work import Mutated
from pykcp.types import Object


class MutatingPolicies:
    name = "MutatingAdmissionPolicy"

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    async def mutate(self, request: AdmissionRequest, hooks: Sequence[BoundPolicy]) -> None:
        if request.operation == "DELETE":
            return
        subject = Subject(request)
        invocations = await self._policies.invocations(subject, hooks)
        failures: list[tuple[str, str]] = [
            (_text(each, each.message), "") for each in invocations if isinstance(each, Refused)
        ]
        callable_ones = [each for each in invocations if isinstance(each, PolicyInvocation)]
        if callable_ones:
            failures += await self._invoke(subject, callable_ones)
        if failures:
            raise _denial(subject, failures)

    async def _invoke(
        self, subject: Subject, invocations: list[PolicyInvocation]
    ) -> list[tuple[str, str]]:
        """Run all that match; messages and reasons of those that failed and do not fail open."""
        request = subject.request
        again = reinvocation_of(request)
        rounds = again.enter(self.name, request)
        questions = self._policies.questions(subject)
        namespace = self._policies.lookups.namespace_object(subject)
        failures: list[tuple[str, str]] = []
        has_worked = False
        slices = Slices(subject.cluster)
        for invocation in invocations:
            if slices.is_over():
                await slices.next()
            policy = invocation.policy
            await show(subject, invocation.target)
            matches, error = await self._matches(invocation, subject, questions)
            if error:
                failures.append((_text(invocation, error), "Invalid"))
            key = _key(invocation)
            if not matches or (again.is_second and key not in rounds.due):
                continue
            seen = _Seen(invocation, subject, namespace, questions)
            if isinstance(request, LargeRequest) and subject.is_own(invocation.target):
                made = await _mutated_elsewhere(seen, request)
            else:
                made = await _mutated_here(seen)
            if not policy.fails_open:
                failures += ((_text(invocation, message), "Invalid") for message in made.problems)
            has_worked |= made.worked
            if made.has_changed:
                rounds.changed()
            if policy.reinvoked:
                rounds.waiting.add(key)
        if has_worked:  # including the policies that made the last change
            rounds.changed()
            again.is_wanted = True
        leave(rounds, request)
        return failures

    async def _matches(
        self, invocation: PolicyInvocation, subject: Subject, questions: Questions
    ) -> tuple[bool, str]:
        policy = invocation.policy
        if not policy.conditions and not policy.is_large:
            return True, ""

        def holds(limits: EvaluationLimits) -> tuple[bool, str]:
            values = values_for(invocation, subject, None, questions)
            evaluation = Evaluation(values, policy.variables, MATCH_BUDGET, limits)
            return conditions_hold(policy.conditions, evaluation, fail_open=policy.fails_open)

        return await evaluated(
            questions,
            subject,
            holds,
            partial(values_for, invocation, subject, None, None),
            ("matches", policy.source),
            is_large=policy.is_large,
        )


class _Seen(NamedTuple):
    """A policy that matches, and what its expressions see."""

    invocation: PolicyInvocation
    subject: Subject
    namespace: Object | None
    questions: Questions

    def values(self, *, is_here: bool) -> dict[str, Any]:
        """With the authorizer, or without it, to be sent to a worker process."""
        asked = self.questions if is_here else None
        return values_for(self.invocation, self.subject, self.namespace, asked)


class _Made(NamedTuple):
    """What a policy did to an object."""

    worked: bool
    """Whether any mutation was made, and be it that it changed nothing."""
    problems: list[str]
    """What went wrong with the others."""
    has_changed: bool


async def _mutated_elsewhere(seen: _Seen, request: LargeRequest) -> _Made:
    """An object that is too large for the event loop."""
    subject, work = seen.subject, request.resource.services.large
    assert work is not None
    if not request.has_object:
        return _Made(False, [], False)
    values = seen_by(seen.questions, subject, seen.values(is_here=False))
    source = seen.invocation.policy.source

    def run(answers: Answers) -> Awaitable[Mutated]:
        return work.mutated(request.resource, subject.cluster, source, values(answers))

    made = await seen.questions.answering_elsewhere(run)
    if made.text:
        request.replace(made.text)
        subject.changed()
    return _Made(made.worked, made.problems, bool(made.text))


async def _mutated_here(seen: _Seen) -> _Made:
    """Raises Outgrown if the object becomes too large for that, and the write can begin anew."""
    (invocation, subject, _, questions), request = seen, seen.subject.request
    own, target, policy = subject.resource, invocation.target, invocation.policy
    if request.obj is None:
        return _Made(False, [], False)
    await show(subject, target)
    shown, _ = subject.shown(target)
    assert shown is not None
    # decoding changes what it is given: the request's own object must not be that
    obj: Object = codec.copy(shown)
    can_restart = request.can_restart and own.has_workers
    worked, problems = False, []
    for index, mutation in enumerate(policy.mutations):

        def values(obj: Object = obj) -> dict[str, Any]:
            return {**seen.values(is_here=False), "object": obj}

        def says(
            limits: EvaluationLimits, obj: Object = obj, mutation: Mutation = mutation
        ) -> bytes:
            found = {**seen.values(is_here=True), "object": obj}
            return orjson.dumps(patch_of(mutation, policy, found, limits))

        job = ("patch", policy.source, index)
        try:
            patch = await evaluated(questions, subject, says, values, job, is_large=policy.is_large)
            if can_restart and own.is_large(len(patch)):
                raise Outgrown
            read = orjson.loads(patch)
            obj = await patched_object(
                read, mutation, target, subject, obj, can_restart=can_restart
            )
        except MutationFailed as error:
            problems.append(str(error))
        else:
            worked = True
    if not worked:
        return _Made(False, problems, False)
    if not subject.is_own(target):
        back = await converted(obj, target, own, subject.cluster)
        assert back is not None
        obj = await read_patched(own, back, subject.cluster)
    before = codec.copy(request.obj)
    replace_contents(request.obj, obj)
    subject.changed()
    return _Made(True, problems, request.obj != before)


def _key(invocation: PolicyInvocation) -> str:
    metadata = (invocation.param or {}).get("metadata") or {}
    parts = (metadata.get("namespace", ""), metadata.get("name", ""))
    return "/".join((invocation.policy.name, invocation.binding.name, *parts))


def _text(refused: PolicyInvocation | Refused, message: str) -> str:
    name, binding = refused.policy.name, refused.binding
    if binding is None:
        return f'policy "{name}" denied request: {message}'
    return f"policy '{name}' with binding '{binding.name}' denied request: {message}"


def _denial(subject: Subject, failures: list[tuple[str, str]]) -> Forbidden:
    """The first failure is the message; all of them are causes."""
    refusal = subject.forbidden("admission request denied by policy")
    message, reason = failures[0]
    refusal.message = message
    if reason:
        refusal.reason = reason
    refusal.causes = tuple(Cause("", text) for text, _ in failures)
    return refusal
