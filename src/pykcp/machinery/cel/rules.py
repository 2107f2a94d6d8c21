"""x-kubernetes-validations of a whole schema: compiled once, run on every write.

`RuleSet` mirrors the schema where it holds rules. A rule runs with `self` (the value at
its node) and `oldSelf` (the value it follows, if there is one). Evaluation is counted
only when an object is so large that the counting could matter; see `docs/design/cel.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pykcp.machinery.cel.compiled_rules import CompiledRule, NodeRules, compile_node
from pykcp.machinery.cel.correlation import Correlation, KeyedItems, Ratchet
from pykcp.machinery.cel.declared import MAX_REQUEST, declare
from pykcp.machinery.cel.escaping import escape
from pykcp.machinery.cel.field_paths import child, key
from pykcp.machinery.cel.program import PER_CALL_LIMIT, Program
from pykcp.machinery.cel.values import NONE, CelError, CostExceeded, EvalError, Optional
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import FieldError

OBJECT_BUDGET = 10_000_000
"""What all rules together may cost on one object."""
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
class RuleNode:
    """The rules at and below one node of a schema."""

    schema: Schema
    compiled: NodeRules | None = None
    broken: str = ""
    """Why the rules of this node cannot be compiled at all."""
    items: RuleNode | None = None
    properties: dict[str, RuleNode] = field(default_factory=dict)
    additional: RuleNode | None = None
    all_of: list[RuleNode] = field(default_factory=list)
    cardinality: int | None = 1
    """How many such values one object holds at most; None: as many as fit."""

    def walk(self) -> Iterator[RuleNode]:
        yield self
        for node in (self.items, self.additional, *self.properties.values(), *self.all_of):
            if node is not None:
                yield from node.walk()


def _build(
    rules: Schema, schema: Schema, *, root: bool, cardinality: int | None
) -> RuleNode | None:
    """The node for `schema`, with the rules that `rules` (itself or an allOf) holds."""
    node = RuleNode(schema, cardinality=cardinality)
    below = _times(cardinality, _elements(schema))
    if rules.rules:
        node.compiled = compile_node(rules.rules, schema, root=root)
        if node.compiled is None:
            node.broken = "failed to convert to declType for CEL validation rules"
    if rules.items is not None and schema.items is not None:
        node.items = _build(
            rules.items, schema.items, root=schema.items.embedded_resource, cardinality=below
        )
    for name, rule_schema in rules.properties.items():
        prop = schema.properties.get(name)
        if prop is None or not _is_visible(name, prop):
            continue
        built = _build(rule_schema, prop, root=prop.embedded_resource, cardinality=below)
        if built is not None:
            node.properties[name] = built
    if rules.additional is not None and schema.additional is not None:
        node.additional = _build(
            rules.additional, schema.additional, root=schema.additional.embedded_resource,
            cardinality=below,
        )  # fmt: skip
    for part in rules.all_of:
        built = _build(part, schema, root=root, cardinality=cardinality)
        if built is not None:
            node.all_of.append(built)
    some = node.compiled or node.broken or node.items or node.properties
    return node if some or node.additional or node.all_of else None


def _is_visible(name: str, schema: Schema) -> bool:
    """Fields whose type CEL does not know are left alone, with all that is below them."""
    return _holds_rules(schema) and (
        escape(name) is None or declare(schema, schema.embedded_resource) is not None
    )


def _holds_rules(schema: Schema) -> bool:
    below = [*schema.properties.values(), *schema.all_of]
    below += [s for s in (schema.items, schema.additional) if s is not None]
    return bool(schema.rules) or any(_holds_rules(s) for s in below)


def _elements(schema: Schema) -> int | None:
    if schema.type == "array":
        return schema.max_items
    if schema.type == "object" and schema.additional is not None:
        return schema.max_properties
    return 1


def _times(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a * max(b, 0)


@dataclass(slots=True)
class _Run:
    """One validation: what is left of the budget, and what was found."""

    tracked: bool
    limit: int
    budget: int
    errors: list[FieldError]
    warnings: list[str]

    def out_of_budget(self) -> bool:
        return self.budget < 0


class RuleSet:
    """All rules of a schema. Build it once and keep it with the schema."""

    def __init__(self, schema: Schema, *, root: bool = True) -> None:
        """`root` tells that the schema is that of a whole resource."""
        self._root = (
            _build(schema, schema, root=root, cardinality=1) if _holds_rules(schema) else None
        )
        self._schema = schema
        self._cheap: dict[int, bool] = {}
        self.uses_old = self._root is not None and any(
            n.compiled is not None and n.compiled.uses_old for n in self._root.walk()
        )

    def __bool__(self) -> bool:
        return self._root is not None

    def validate(
        self,
        new: Any,
        old: Any = None,
        *,
        size: int = 0,
        path: str = "",
        ratchet: bool = True,
        warnings: list[str] | None = None,
        limit: int = PER_CALL_LIMIT,
        budget: int = OBJECT_BUDGET,
    ) -> list[FieldError]:
        """The violations. `old` is the stored object on an update.

        `size` is the length of the larger of the two as JSON, if the caller knows it.
        With `ratchet`, violations by what did not change go to `warnings` instead.
        """
        if self._root is None:
            return []
        tracked = not self._is_cheap(new, old, size, limit, budget)
        run = _Run(tracked, limit, budget, [], warnings if warnings is not None else [])
        correlation = Correlation(new, old, self._schema) if old is not None and ratchet else None
        _validate(self._root, run, path, new, old, Ratchet(correlation))
        return run.errors

    def _is_cheap(self, new: Any, old: Any, size: int, limit: int, budget: int) -> bool:
        """Whether nothing that fits into so many bytes can reach a limit."""
        if (limit, budget) != (PER_CALL_LIMIT, OBJECT_BUDGET):
            return False
        if self._cheap_up_to(MAX_REQUEST):
            return True
        if size <= 0:
            import orjson

            try:
                size = max(len(orjson.dumps(v)) for v in (new, old))
            except (TypeError, ValueError):
                return False  # no JSON: count what it costs
        return self._cheap_up_to(size)

    def _cheap_up_to(self, size: int) -> bool:
        rounded = 1 << max(size - 1, 1).bit_length()
        found = self._cheap.get(rounded)
        if found is None:
            found = self._cheap[rounded] = self._bound(rounded) <= OBJECT_BUDGET
        return found

    def _bound(self, size: int) -> int:
        assert self._root is not None
        total = 0
        for node in self._root.walk():
            if node.compiled is None:
                continue
            declared = node.compiled.declared
            count = size // (declared.min_size + 1) + 1
            if node.cardinality is not None:
                count = min(count, node.cardinality)
            for rule in node.compiled.rules:
                for program in (rule.program, rule.message):
                    if program is None:
                        continue
                    cost = program.bound(declared, size)
                    if cost > PER_CALL_LIMIT:
                        return OBJECT_BUDGET + 1
                    total += cost * count
        return total


def _validate(node: RuleNode, run: _Run, path: str, new: Any, old: Any, ratchet: Ratchet) -> None:
    if new is None:
        return
    if node.compiled is not None or node.broken:
        _run_rules(node, run, path, new, old, ratchet)
        if run.out_of_budget():
            return
    for part in node.all_of:
        _validate(part, run, path, new, old, ratchet.without_current())
        if run.out_of_budget():
            return
    if isinstance(new, list):
        if node.items is not None:
            _validate_items(node, node.items, run, path, new, old, ratchet)
    elif isinstance(new, dict) and (node.properties or node.additional is not None):
        _validate_map(node, run, path, new, old if isinstance(old, dict) else {}, ratchet)


def _validate_items(
    node: RuleNode, items: RuleNode, run: _Run, path: str, new: list[Any], old: Any,
    ratchet: Ratchet,
) -> None:  # fmt: skip
    followed = KeyedItems(node.schema, old)
    for position, item in enumerate(new):
        below = ratchet.index(position)
        _validate(items, run, f"{path}[{position}]", item, followed.get(item), below)
        if run.out_of_budget():
            return


def _validate_map(
    node: RuleNode, run: _Run, path: str, new: dict[str, Any], old: dict[str, Any],
    ratchet: Ratchet,
) -> None:  # fmt: skip
    if node.additional is not None:
        for name, value in new.items():
            below = ratchet.key(name)
            _validate(node.additional, run, key(path, name), value, old.get(name), below)
            if run.out_of_budget():
                return
    for name, prop in node.properties.items():
        if name in new:
            below = ratchet.key(name)
            _validate(prop, run, child(path, name), new[name], old.get(name), below)
            if run.out_of_budget():
                return


def _invalid(path: str, value: Any, message: str) -> FieldError:
    return FieldError(
        path or "<nil>", "FieldValueInvalid", message,
        None if value is _OMITTED else value, shown=value is not _OMITTED,
    )  # fmt: skip


def _run_rules(node: RuleNode, run: _Run, path: str, new: Any, old: Any, ratchet: Ratchet) -> None:
    kind = node.schema.type
    if node.compiled is None:
        message = f"rule compiler initialization error: {node.broken}"
        run.errors.append(_invalid(path, kind, message))
        return
    if run.budget <= 0:
        run.errors.append(_invalid(path, kind, _NO_BUDGET))
        run.budget = -1
        return
    for rule in node.compiled.rules:
        if rule.error:
            run.errors.append(_invalid(path, kind, f"rule compile error: {rule.error}"))
            continue
        if rule.program is None or (rule.uses_old and old is None and not rule.optional_old):
            continue
        shown_old = _old_for(node.compiled, rule, old)
        try:
            passed = _evaluate(rule.program, run, new, shown_old)
        except CelError as error:
            if _report_failure(rule, run, path, kind, error):
                return
            continue
        if passed is None:
            run.errors.append(_invalid(path, kind, _NO_BUDGET))
            run.budget = -1
            return
        if passed is not True and _report_violation(
            node, node.compiled, rule, run, path, new, old, ratchet
        ):
            return


def _old_for(compiled: NodeRules, rule: CompiledRule, old: Any) -> Any:
    if not rule.optional_old or not compiled.uses_old:
        return old
    return NONE if old is None else Optional(compiled.box_old(old))


def _evaluate(program: Program, run: _Run, new: Any, old: Any) -> Any:
    """The value, or None when the budget is used up; raises CelError."""
    if not run.tracked:
        try:
            return program.fast(new, old)
        except _DATA_ERRORS as error:
            raise EvalError(f"invalid data: {error}") from error
    value, failure, cost = program.tracked({"self": new, "oldSelf": old}, run.limit)
    if cost > run.budget:
        return None
    run.budget -= cost
    if failure is not None:
        raise failure
    return value


def _report_failure(rule: CompiledRule, run: _Run, path: str, kind: str, error: CelError) -> bool:
    """A rule without a value; True when no further rule may run."""
    text = str(error)
    if isinstance(error, CostExceeded):
        message = (
            f"'{text}': no further validation rules will be run due to call cost exceeds "
            f"limit for rule: {rule.label}"
        )
        run.errors.append(_invalid(path, kind, message))
        run.budget = -1
        return True
    if text.startswith("no such overload"):
        message = (
            f"'{text}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule.label}"
        )
    else:
        message = f"{text} evaluating rule: {rule.label}"
    run.errors.append(_invalid(path, kind, message))
    return False


def _report_violation(
    node: RuleNode, compiled: NodeRules, rule: CompiledRule, run: _Run, path: str, new: Any, old: Any,
    ratchet: Ratchet,
) -> bool:  # fmt: skip
    """A rule that is false; True when no further rule may run."""
    place = child(path, rule.field_path) if rule.field_path else path
    message: str | None = None
    stop = False
    if rule.message is not None:
        message, stop = _message(compiled, rule, run, new, old)
    if stop:
        assert message is not None
        found = _invalid(place, node.schema.type, message)
        run.budget = -1
    else:
        found = _violation(node, rule, place, new, message or rule.default_message)
    if not rule.uses_old and ratchet.holds():
        run.warnings.append(found.text())
    else:
        run.errors.append(found)
    return stop


def _message(
    compiled: NodeRules, rule: CompiledRule, run: _Run, new: Any, old: Any
) -> tuple[str | None, bool]:
    """What messageExpression says, or None; with True when it used up what there was.

    It sees `oldSelf` as the plain value even where the rule sees an optional one: so it is
    upstream, and a message that takes it for an optional falls back to the rule's text.
    """
    assert rule.message is not None
    source = rule.rule["messageExpression"]
    if "oldSelf" in rule.message.variables and (not compiled.uses_old or old is None):
        return None, False
    if rule.optional_old and old is not None:
        old = compiled.box_old(old)
    try:
        value = _evaluate(rule.message, run, new, old)
    except CostExceeded:
        from pykcp.machinery.status import go_quote

        text = (
            "no further validation rules will be run due to call cost exceeds limit for "
            f"messageExpression: {go_quote(source)}"
        )
        return text, True
    except CelError:
        return None, False
    if value is None:
        return _NO_MESSAGE_BUDGET, True
    text = str(value).strip()
    if not text or "\n" in text or len(text.encode(errors="replace")) > MAX_MESSAGE:
        return None, False
    return text, False


_REASONS_WITHOUT_VALUE = frozenset({"FieldValueForbidden", "FieldValueRequired"})


def _violation(node: RuleNode, rule: CompiledRule, path: str, new: Any, detail: str) -> FieldError:
    value = _OMITTED if node.schema.type in ("object", "array") else new
    reason = rule.rule.get("reason") or "FieldValueInvalid"
    if reason in _REASONS_WITHOUT_VALUE:
        return FieldError(path or "<nil>", reason, detail, shown=False)
    if reason == "FieldValueDuplicate":
        shown = value is not _OMITTED
        return FieldError(path or "<nil>", reason, "", value if shown else None, shown=shown)
    return _invalid(path, value, detail)
