"""Validation of x-kubernetes-validations when a CRD is written."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from pykcp.machinery.cel.cost.estimate import UNLIMITED
from pykcp.machinery.cel.rules.compiled_rules import CompiledRule, compile_node
from pykcp.machinery.cel.rules.field_paths import FieldPathError, child, key, normalize
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import FieldError, forbidden, invalid, not_supported, required

RULE_COST_LIMIT = 10_000_000
"""What one rule may cost at worst, on all the values of one object together."""
SCHEMA_COST_LIMIT = 100_000_000
"""What all rules of a schema may cost at worst."""
SCHEMA_LENGTH_LIMIT = 1_000_000
"""Characters of all expressions of a schema: a million takes some seconds to compile."""
_MOST_EXPENSIVE = 4
_REASONS = (
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
)  # fmt: skip
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)


@dataclass(slots=True)
class _Context:
    invalid: Container[int]
    schema_errors: list[FieldError] = field(default_factory=list)
    cel_errors: list[FieldError] = field(default_factory=list)
    total: int = 0
    expensive: list[tuple[int, str]] = field(default_factory=list)

    def observe(self, path: str, cost: int) -> None:
        self.total = min(self.total + cost, UNLIMITED)
        if cost >= SCHEMA_COST_LIMIT // 100:
            self.expensive.append((cost, path))
            self.expensive.sort(key=lambda e: -e[0])
            del self.expensive[_MOST_EXPENSIVE:]


def check_rules(
    schema: Schema, path: str, *, invalid_nodes: Container[int] = frozenset()
) -> list[FieldError]:
    """Errors of all rules in the schema of a resource, which stands at `path` in its CRD.

    `invalid_nodes` holds the id() of schema nodes that are wrong in other ways, at or below
    them: their rules are not looked at, since their types may make no sense.
    """
    if _length(schema) > SCHEMA_LENGTH_LIMIT:
        why = f"expressions of all validation rules must have at most {SCHEMA_LENGTH_LIMIT} characters"
        return [forbidden(path, why)]
    context = _Context(invalid_nodes)
    _check_node(schema, path, context, root=True, cardinality=1, uncorrelatable="")
    errors = context.schema_errors + context.cel_errors
    if context.total > SCHEMA_COST_LIMIT:
        for _, place in context.expensive:
            errors.append(
                forbidden(
                    place,
                    "contributed to estimated rule cost total exceeding cost limit for entire "
                    "OpenAPIv3 schema",
                )
            )
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors.append(forbidden(path, cost_message(what, context.total, SCHEMA_COST_LIMIT)))
    return errors


def _length(schema: Schema) -> int:
    """How long the expressions of a schema are together."""
    total = 0
    stack = [schema]
    while stack:
        node = stack.pop()
        for rule in node.rules:
            total += len(rule.get("rule") or "") + len(rule.get("messageExpression") or "")
        stack += [*node.properties.values(), *node.all_of]
        stack += [s for s in (node.items, node.additional) if s is not None]
    return total


def _check_node(
    schema: Schema, path: str, context: _Context, *, root: bool, cardinality: int | None,
    uncorrelatable: str,
) -> bool:  # fmt: skip
    """Checks a node and all below; returns whether their rules are well formed."""
    below = _below(schema, cardinality)
    sound = id(schema) not in context.invalid
    if schema.additional is not None:
        sound &= _check_node(
            schema.additional, child(path, "additionalProperties"), context,
            root=schema.additional.embedded_resource, cardinality=below,
            uncorrelatable=uncorrelatable,
        )  # fmt: skip
    for name, prop in schema.properties.items():
        sound &= _check_node(
            prop, key(child(path, "properties"), name), context,
            root=prop.embedded_resource, cardinality=below, uncorrelatable=uncorrelatable,
        )  # fmt: skip
    if schema.items is not None:
        lost = uncorrelatable or ("" if schema.list_type == "map" else path)
        sound &= _check_node(
            schema.items, child(path, "items"), context,
            root=schema.items.embedded_resource, cardinality=below, uncorrelatable=lost,
        )  # fmt: skip
    if not schema.rules:
        return sound
    place = child(path, "x-kubernetes-validations")
    before = len(context.schema_errors)
    for index, rule in enumerate(schema.rules):
        _check_fields(rule, f"{place}[{index}]", schema, context.schema_errors)
    sound &= len(context.schema_errors) == before
    if sound:
        _check_expressions(
            schema, place, context, root=root, cardinality=cardinality,
            uncorrelatable=uncorrelatable,
        )  # fmt: skip
    return sound


def _below(schema: Schema, cardinality: int | None) -> int | None:
    if cardinality is None:
        return None
    factor: int | None = 1
    if schema.type == "array":
        factor = schema.max_items
    elif schema.type == "object" and schema.additional is not None:
        factor = schema.max_properties
    return None if factor is None else min(cardinality * max(factor, 0), UNLIMITED)


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def _check_fields(
    rule: dict[str, Any], path: str, schema: Schema, errors: list[FieldError]
) -> None:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    expression, field_path = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
    if not text.strip():
        errors.append(required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif _has_line_break(message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    elif _has_line_break(text.strip()) and not message.strip():
        errors.append(
            required(f"{path}.message", "message must be specified if rule contains line breaks")
        )
    if expression and not expression.strip():
        errors.append(
            required(
                f"{path}.messageExpression", "messageExpression must be non-empty if specified"
            )
        )
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{path}.reason", reason, _REASONS))
    if field_path:
        _check_field_path(field_path, f"{path}.fieldPath", schema, errors)


def _check_field_path(field_path: str, path: str, schema: Schema, errors: list[FieldError]) -> None:
    if not field_path.strip():
        errors.append(invalid(path, field_path, "must be non-empty if specified"))
    if _has_line_break(field_path):
        errors.append(invalid(path, field_path, "must not contain line breaks"))
    try:
        normalize(field_path, schema)
    except FieldPathError:
        errors.append(invalid(path, field_path, "must be a valid path"))


def _check_expressions(
    schema: Schema, path: str, context: _Context, *, root: bool, cardinality: int | None,
    uncorrelatable: str,
) -> None:  # fmt: skip
    compiled = compile_node(schema.rules, schema, root=root)
    if compiled is None:
        message = (
            "internal error: failed to construct type information for x-kubernetes-validations "
            "rules: unable to convert structural schema to CEL declarations"
        )
        context.cel_errors.append(FieldError(path, "InternalError", message, shown=False))
        return
    count = compiled.max_cardinality if cardinality is None else cardinality
    for index, rule in enumerate(compiled.rules):
        _check_compiled(rule, f"{path}[{index}]", context, count, uncorrelatable)


def _check_compiled(
    rule: CompiledRule, path: str, context: _Context, count: int, uncorrelatable: str
) -> None:
    errors = context.cel_errors
    cost = min(rule.max_cost * count, UNLIMITED)
    if cost > RULE_COST_LIMIT:
        message = cost_message("estimated rule cost", cost, RULE_COST_LIMIT)
        errors.append(forbidden(f"{path}.rule", message))
    context.observe(f"{path}.rule", cost)
    if rule.error:
        errors.append(_refused(f"{path}.rule", rule.rule, rule.error))
    if rule.message_error:
        errors.append(_refused(f"{path}.messageExpression", rule.rule, rule.message_error))
    elif rule.message is not None:
        if rule.message_cost > RULE_COST_LIMIT:
            message = cost_message(
                "estimated messageExpression cost", rule.message_cost, RULE_COST_LIMIT
            )
            errors.append(forbidden(f"{path}.messageExpression", message))
        context.observe(f"{path}.messageExpression", rule.message_cost)
    if rule.uses_old:
        if uncorrelatable:
            errors.append(
                invalid(
                    f"{path}.rule",
                    rule.rule["rule"],
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                    f"{uncorrelatable}",
                )
            )
    elif rule.rule.get("optionalOldSelf") is not None:
        errors.append(
            invalid(
                f"{path}.optionalOldSelf",
                rule.rule["optionalOldSelf"],
                "may not be set if oldSelf is not used in rule",
            )
        )


def _refused(path: str, rule: dict[str, Any], why: str) -> FieldError:
    """The value is the rule as a whole, in the form in which the server holds it."""
    shown = json.dumps(
        {
            "Rule": rule.get("rule") or "",
            "Message": rule.get("message") or "",
            "MessageExpression": rule.get("messageExpression") or "",
            "Reason": rule.get("reason"),
            "FieldPath": rule.get("fieldPath") or "",
            "OptionalOldSelf": rule.get("optionalOldSelf"),
        },
        separators=(",", ":"),
        ensure_ascii=False,
    )
    for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        shown = shown.replace(char, escaped)
    return FieldError(path, "FieldValueInvalid", f"{shown}: {why}", shown=False)


def cost_message(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    elif factor < 1.5:
        shown = f"{factor:f}x"
    else:
        shown = f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"
