"""Evaluating a validating policy: decisions and audit annotations. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pykcp.admission.expressions.authorizing import Questions
from pykcp.admission.expressions.evaluating import (
    FULL,
    MATCH_BUDGET,
    POLICY_BUDGET,
    Evaluation,
    EvaluationLimits,
    OutOfBudget,
    conditions_hold,
)
from pykcp.admission.policies.invocations import PolicyInvocation, values_for
from pykcp.admission.policies.policy import AdmissionPolicy, Validation
from pykcp.admission.subject import Subject
from pykcp.machinery.cel.runtime.kinds import kind_of
from pykcp.types import Object

_MAX_MESSAGE = 5 * 1024
_MAX_ANNOTATION = 10 * 1024


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A validation that does not hold, or could not be evaluated."""

    index: int
    message: str
    reason: str = ""


@dataclass(slots=True)
class PolicyVerdict:
    decisions: list[PolicyDecision] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)
    annotation_errors: list[str] = field(default_factory=list)


def judge(
    invocation: PolicyInvocation,
    subject: Subject,
    namespace: Object | None,
    questions: Questions,
    limits: EvaluationLimits = FULL,
) -> PolicyVerdict:
    """What a policy says of a request. May end with Unanswered."""
    values = values_for(invocation, subject, namespace, questions)
    return judge_values(invocation.policy, values, limits)


def judge_values(
    policy: AdmissionPolicy, values: dict[str, Any], limits: EvaluationLimits = FULL
) -> PolicyVerdict:
    """The same, of what expressions see."""
    if policy.conditions:
        seen = {**values, "namespaceObject": None}
        evaluation = Evaluation(seen, policy.variables, MATCH_BUDGET, limits)
        matches, error = conditions_hold(policy.conditions, evaluation, fail_open=policy.fails_open)
        if error:
            return PolicyVerdict([PolicyDecision(0, error)])
        if not matches:
            return PolicyVerdict()
    silent = {name: value for name, value in values.items() if not name.startswith("authorizer")}
    try:
        decisions = _decisions(policy, values, silent, limits)
        verdict = PolicyVerdict(decisions)
        _annotate(policy, silent, verdict, limits)
    except OutOfBudget as error:
        return (
            PolicyVerdict() if policy.fails_open else PolicyVerdict([PolicyDecision(0, str(error))])
        )
    return verdict


def _decisions(
    policy: AdmissionPolicy,
    values: dict[str, Any],
    silent: dict[str, Any],
    limits: EvaluationLimits,
) -> list[PolicyDecision]:
    evaluation = Evaluation(values, policy.variables, POLICY_BUDGET, limits)
    results = [evaluation.evaluate(v.expression) for v in policy.validations]
    messages = Evaluation(silent, policy.variables, evaluation.remaining, limits)
    found: list[PolicyDecision] = []
    for index, (validation, result) in enumerate(zip(policy.validations, results, strict=True)):
        if result.error:
            if not policy.fails_open:
                found.append(PolicyDecision(index, result.error))
        elif result.value is not True:
            try:
                message = _message(validation, messages)
            except OutOfBudget as error:
                if not policy.fails_open:
                    found.append(PolicyDecision(index, f"failed messageExpression: {error}"))
                continue
            found.append(PolicyDecision(index, message, validation.reason))
    return found


def _message(validation: Validation, messages: Evaluation) -> str:
    message = ""
    if validation.message_expression is not None:
        value = messages.evaluate(validation.message_expression).value
        if isinstance(value, str):
            message = value.strip()
            if len(message.encode()) > _MAX_MESSAGE or "\n" in message:
                message = ""
    if not message:
        message = validation.message.strip()
    return message or f"failed expression: {validation.expression.expression.strip()}"


def _annotate(
    policy: AdmissionPolicy,
    values: dict[str, Any],
    verdict: PolicyVerdict,
    limits: EvaluationLimits,
) -> None:
    if not policy.annotations:
        return
    evaluation = Evaluation(values, policy.variables, POLICY_BUDGET, limits)
    for key, expression in policy.annotations:
        result = evaluation.evaluate(expression)
        if result.error:
            if not policy.fails_open:
                verdict.annotation_errors.append(result.error)
        elif isinstance(result.value, str):
            text = result.value.strip()
            if text:
                verdict.annotations.append((key, _cut(text)))
        elif result.value is not None:
            verdict.annotation_errors.append(
                f"valueExpression '{expression.expression}' resulted in unsupported return type: "
                f"{kind_of(result.value)}. Return type must be either string or null."
            )


def _cut(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= _MAX_ANNOTATION:
        return text
    return encoded[:_MAX_ANNOTATION].decode(errors="ignore")
