"""Evaluating compiled expressions within a budget; policy variables when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pykcp.admission.expressions.compiling import Compiled
from pykcp.machinery.cel.cost.work import OBJECT_WORK, allow, remaining
from pykcp.machinery.cel.program import PER_CALL_LIMIT, Program
from pykcp.machinery.cel.runtime.values import CelError, CostExceeded, EvalError

POLICY_BUDGET = 10_000_000
"""What all expressions of a policy may cost on one request."""
MATCH_BUDGET = 2_500_000
"""What all match conditions of a webhook or a policy may cost."""
_SPENT = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


@dataclass(frozen=True, slots=True)
class EvaluationLimits:
    """What evaluations may cost where they are made."""

    per_call: int = PER_CALL_LIMIT
    budget: int | None = None
    """Of all expressions; None: what the evaluation is given."""
    work: int = OBJECT_WORK
    """Of all expressions, what their cost does not show."""


FULL = EvaluationLimits()
INLINE = EvaluationLimits(per_call=20_000, budget=30_000, work=20_000)
"""On the event loop: some milliseconds. What costs more is evaluated by a worker process."""


class EvaluationTooCostly(Exception):
    """The evaluation costs more than is allowed here, which says nothing about its result."""


class OutOfBudget(Exception):
    """What is left does not pay for the evaluation: nothing further is evaluated."""

    def __init__(self) -> None:
        super().__init__(_SPENT)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """A value, or why there is none."""

    value: Any = None
    error: str = ""


class EvaluatedVariables(dict[str, Any]):
    """`variables`: each is evaluated when it is first looked at, and its cost is noted."""

    def __init__(
        self,
        compiled: Mapping[str, Compiled],
        values: Mapping[str, Any],
        limits: EvaluationLimits = FULL,
    ) -> None:
        super().__init__()
        self._limits = limits
        self._compiled = compiled
        self._values = values
        """Without the variables themselves: a cycle would keep the object until garbage is collected."""
        self._failed: dict[str, str] = {}
        """What the errors say. An error itself would refer to this object by its traceback."""
        self.cost = 0

    def __contains__(self, name: object) -> bool:
        return name in self._compiled

    def __missing__(self, name: str) -> Any:
        failure = self._failed.get(name)
        if failure is not None:
            raise EvalError(failure)
        compiled = self._compiled[name]
        if compiled.program is None:
            raise EvalError(f'composited variable "{name}" fails to compile: {compiled.error}')
        values = {**self._values, "variables": self}
        value, error, cost = _tracked(compiled.program, values, self._limits)
        self.cost += cost
        if error is not None:
            failure = f'composited variable "{name}" fails to evaluate: {error}'
            self._failed[name] = failure
            raise EvalError(failure)
        self[name] = value
        return value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def take_cost(self) -> int:
        cost, self.cost = self.cost, 0
        return cost


class Evaluation:
    """A series of evaluations on the same values that share a budget."""

    def __init__(
        self,
        values: Mapping[str, Any],
        variables: Mapping[str, Compiled],
        budget: int,
        limits: EvaluationLimits = FULL,
    ) -> None:
        """`values`: object, oldObject, request and what else expressions see."""
        self._variables = EvaluatedVariables(variables, values, limits)
        self._values: dict[str, Any] = {**values, "variables": self._variables}
        self._limits = limits
        self.remaining = budget if limits.budget is None else limits.budget
        self._work = limits.work

    def evaluate(self, compiled: Compiled) -> EvaluationResult:
        """Raises OutOfBudget; whatever else goes wrong is in the result."""
        if compiled.program is None:
            return EvaluationResult(error=f"compilation error: {compiled.error}")
        allow(self._work)
        why: str | None = None
        try:
            value, error, cost = _tracked(compiled.program, self._values, self._limits)
            if error is not None:
                why = _reason(error)
        except EvalError as missing:  # a name that is declared but has no value here
            value, cost, why = None, 0, _reason(missing)
        self._work = remaining()
        self._pay(self._variables.take_cost())
        self._pay(cost)
        if why is not None:
            return EvaluationResult(
                error=f"expression '{compiled.expression}' resulted in error: {why}"
            )
        return EvaluationResult(value)

    def _pay(self, cost: int) -> None:
        if cost > self.remaining:
            raise OutOfBudget if self._limits.budget is None else EvaluationTooCostly
        self.remaining -= cost


def _tracked(
    program: Program, values: Mapping[str, Any], limits: EvaluationLimits
) -> tuple[Any, CelError | None, int]:
    value, error, cost = program.counted(values, limits.per_call)
    if limits.per_call < PER_CALL_LIMIT and isinstance(error, CostExceeded):
        raise EvaluationTooCostly
    return value, error, cost


def _reason(error: CelError) -> str:
    """A value that is not of its declared type (times in `namespaceObject`) fits no function."""
    text = str(error)
    return "no such overload" if text.startswith("invalid data: ") else text


def conditions_hold(
    conditions: tuple[Compiled, ...], evaluation: Evaluation, *, fail_open: bool
) -> tuple[bool, str]:
    """Whether all match conditions are met, or an error.

    A condition that is false takes precedence over those that fail.
    """
    errors: list[str] = []
    try:
        results = [evaluation.evaluate(condition) for condition in conditions]
    except OutOfBudget as error:
        return False, "" if fail_open else str(error)
    for result in results:
        if result.error:
            errors.append(result.error)
        elif result.value is False:
            return False, ""
    if not errors:
        return True, ""
    return False, "" if fail_open else aggregate(errors)


def aggregate(errors: list[str]) -> str:
    """Several errors in one text, as Go's aggregate prints them."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
