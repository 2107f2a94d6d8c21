"""Running the rules of one node: budgets, messages, and the errors that come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pykcp.machinery.cel.program import Program
from pykcp.machinery.cel.rules.compiled_rules import CompiledRule, NodeRules
from pykcp.machinery.cel.rules.correlation import Ratchet
from pykcp.machinery.cel.rules.field_paths import child
from pykcp.machinery.cel.runtime.values import NONE, CelError, CostExceeded, EvalError, Optional
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import FieldError, go_quote

MAX_MESSAGE = 5 * 1024
"""Bytes of the longest message that an expression may make."""
_NO_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_NO_MESSAGE_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, "
    "no further validation rules will be run"
)
_DATA_ERRORS = (TypeError, AttributeError, ValueError, RecursionError, MemoryError, KeyError)
_OMITTED = object()


@dataclass(slots=True)
class RuleRun:
    """One validation: what is left of the budget, and what was found."""

    tracked: bool
    limit: int
    budget: int
    errors: list[FieldError]
    warnings: list[str]

    def out_of_budget(self) -> bool:
        return self.budget < 0

    def stop(self, error: FieldError) -> None:
        """Reports the error that no further rule may follow."""
        self.errors.append(error)
        self.budget = -1


def invalid(path: str, value: Any, message: str) -> FieldError:
    return FieldError(
        path or "<nil>", "FieldValueInvalid", message,
        None if value is _OMITTED else value, shown=value is not _OMITTED,
    )  # fmt: skip


def run_rules(
    schema: Schema,
    compiled: NodeRules,
    run: RuleRun,
    path: str,
    new: Any,
    old: Any,
    ratchet: Ratchet,
) -> None:
    """Runs the rules of one node on one value."""
    kind = schema.type
    if run.budget <= 0:
        run.stop(invalid(path, kind, _NO_BUDGET))
        return
    for rule in compiled.rules:
        if rule.error:
            run.errors.append(invalid(path, kind, f"rule compile error: {rule.error}"))
            continue
        if rule.program is None or (rule.uses_old and old is None and not rule.optional_old):
            continue
        try:
            passed = _evaluate(rule.program, run, new, _old_for(compiled, rule, old))
        except CelError as error:
            _report_failure(rule, run, path, kind, error)
        else:
            if passed is None:
                run.stop(invalid(path, kind, _NO_BUDGET))
            elif passed is not True:
                _report_violation(schema, compiled, rule, run, path, new, old, ratchet)
        if run.out_of_budget():
            return


def _old_for(compiled: NodeRules, rule: CompiledRule, old: Any) -> Any:
    if not rule.optional_old or not compiled.uses_old:
        return old
    return NONE if old is None else Optional(compiled.box_old(old))


def _evaluate(program: Program, run: RuleRun, new: Any, old: Any) -> Any:
    """The value, or None when the budget is used up; raises CelError."""
    if not run.tracked:
        try:
            return program.fast(new, old)
        except _DATA_ERRORS as error:
            raise EvalError(f"invalid data: {error}") from error
    value, failure, cost = program.counted({"self": new, "oldSelf": old}, run.limit)
    if cost > run.budget:
        return None
    run.budget -= cost
    if failure is not None:
        raise failure
    return value


def _report_failure(
    rule: CompiledRule, run: RuleRun, path: str, kind: str, error: CelError
) -> None:
    """A rule without a value."""
    text = str(error)
    if isinstance(error, CostExceeded):
        message = (
            f"'{text}': no further validation rules will be run due to call cost exceeds "
            f"limit for rule: {rule.label}"
        )
        run.stop(invalid(path, kind, message))
        return
    if text.startswith("no such overload"):
        message = (
            f"'{text}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule.label}"
        )
    else:
        message = f"{text} evaluating rule: {rule.label}"
    run.errors.append(invalid(path, kind, message))


def _report_violation(
    schema: Schema, compiled: NodeRules, rule: CompiledRule, run: RuleRun, path: str, new: Any,
    old: Any, ratchet: Ratchet,
) -> None:  # fmt: skip
    """A rule that is false."""
    place = child(path, rule.field_path) if rule.field_path else path
    message: str | None = None
    if rule.message is not None:
        message = _message(compiled, rule, run, new, old)
    if run.out_of_budget():
        found = invalid(place, schema.type, message or "")
    else:
        found = _violation(schema, rule, place, new, message or rule.default_message)
    if not rule.uses_old and ratchet.holds():
        run.warnings.append(found.text())
    else:
        run.errors.append(found)


def _message(
    compiled: NodeRules, rule: CompiledRule, run: RuleRun, new: Any, old: Any
) -> str | None:
    """What messageExpression says, or None. It may use up what is left of the budget.

    It sees `oldSelf` as the plain value even where the rule sees an optional one: so it is
    upstream, and a message that takes it for an optional falls back to the rule's text.
    """
    assert rule.message is not None
    if "oldSelf" in rule.message.variables and (not compiled.uses_old or old is None):
        return None
    if rule.optional_old and old is not None:
        old = compiled.box_old(old)
    try:
        value = _evaluate(rule.message, run, new, old)
    except CostExceeded:
        run.budget = -1
        return (
            "no further validation rules will be run due to call cost exceeds limit for "
            f"messageExpression: {go_quote(rule.rule['messageExpression'])}"
        )
    except CelError:
        return None
    if value is None:
        run.budget = -1
        return _NO_MESSAGE_BUDGET
    text = str(value).strip()
    if not text or "\n" in text or len(text.encode(errors="replace")) > MAX_MESSAGE:
        return None
    return text


_REASONS_WITHOUT_VALUE = frozenset({"FieldValueForbidden", "FieldValueRequired"})


def _violation(schema: Schema, rule: CompiledRule, path: str, new: Any, detail: str) -> FieldError:
    value = _OMITTED if schema.type in ("object", "array") else new
    reason = rule.rule.get("reason") or "FieldValueInvalid"
    if reason in _REASONS_WITHOUT_VALUE:
        return FieldError(path or "<nil>", reason, detail, shown=False)
    if reason == "FieldValueDuplicate":
        shown = value is not _OMITTED
        return FieldError(path or "<nil>", reason, "", value if shown else None, shown=shown)
    return invalid(path, value, detail)
