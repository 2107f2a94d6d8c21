"""Policies and match conditions, evaluated by worker processes: bytes in, a verdict out.

What expressions see is passed as JSON. The authorizer is passed as the answers that are known;
an evaluation that needs another one ends with Unanswered, and is sent again with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from pykcp.admission.expressions.authorizing import Answers, check_of, known_authorizer
from pykcp.admission.expressions.compiling import compile_admission
from pykcp.admission.expressions.environment import NameVisibility
from pykcp.admission.expressions.evaluating import MATCH_BUDGET, Evaluation, conditions_hold
from pykcp.admission.policies.mutating import mutated, patch_of
from pykcp.admission.policies.policy import AdmissionPolicy, parse_mutating, parse_validating
from pykcp.admission.policies.validating import PolicyVerdict, judge_values
from pykcp.auth.user import User
from pykcp.caching import BoundedCache
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.large_work import Mutated
from pykcp.types import Object

_KEEP = 256


class Seen(NamedTuple):
    """What expressions see of a request."""

    values: bytes
    """JSON of `object`, `oldObject`, `request`, `namespaceObject` and `params`."""
    user: User
    resource: tuple[str, str, str, str, str]
    """Group, resource, subresource, namespace and name of the request."""
    answers: Answers

    def read(self) -> dict[str, Any]:
        values: dict[str, Any] = orjson.loads(self.values)
        authorizer = known_authorizer(self.user, self.answers)
        values["authorizer"] = authorizer
        values["authorizer.requestResource"] = check_of(authorizer, self.resource)
        return values


def judge(source: bytes, seen: Seen) -> PolicyVerdict:
    """What a validating policy says of a request."""
    return judge_values(_policy(source, parse_validating), seen.read())


def matches(source: bytes, seen: Seen) -> tuple[bool, str]:
    """Whether the match conditions of a mutating policy hold."""
    policy = _policy(source, parse_mutating)
    evaluation = Evaluation(seen.read(), policy.variables, MATCH_BUDGET)
    return conditions_hold(policy.conditions, evaluation, fail_open=policy.fails_open)


def patch(source: bytes, index: int, seen: Seen) -> bytes:
    """JSON of what one mutation of a policy says; MutationFailed if it says nothing."""
    policy = _policy(source, parse_mutating)
    return orjson.dumps(patch_of(policy.mutations[index], policy, seen.read()))


def mutate(target: Resource, source: bytes, seen: Seen) -> Mutated:
    """An object after all mutations of a policy."""
    values = seen.read()
    obj, worked, problems = mutated(_policy(source, parse_mutating), target, values)
    text = b"" if obj == values["object"] else orjson.dumps(obj)
    return Mutated(text, worked, problems)


def conditions(
    expressions: Sequence[str], visibility: NameVisibility, fail_open: bool, seen: Seen
) -> tuple[bool, str]:
    """Whether the match conditions of a webhook hold."""
    compiled = tuple(compile_admission(each, "matchCondition", visibility) for each in expressions)
    evaluation = Evaluation(seen.read(), {}, MATCH_BUDGET)
    return conditions_hold(compiled, evaluation, fail_open=fail_open)


_policies: BoundedCache[bytes, AdmissionPolicy] = BoundedCache("", _KEEP)


def _policy(source: bytes, parse: Callable[[Object], AdmissionPolicy]) -> AdmissionPolicy:
    found = _policies.get(source)
    if found is None:
        found = _policies.put(source, parse(orjson.loads(source)))
    return found
