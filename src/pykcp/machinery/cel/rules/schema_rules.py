"""x-kubernetes-validations of a whole schema: compiled once, run on every write.

`SchemaRules` mirrors the schema where it holds rules. A rule runs with `self` (the value at
its node) and `oldSelf` (the value it follows, if there is one). Evaluation is counted
only when an object is so large that the counting could matter; see `docs/design/api/cel.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pykcp.machinery.cel.check.declared import MAX_REQUEST, declare
from pykcp.machinery.cel.cost.work import OBJECT_WORK, allow
from pykcp.machinery.cel.front.escaping import escape
from pykcp.machinery.cel.program import PER_CALL_LIMIT, Program
from pykcp.machinery.cel.rules.compiled_rules import NodeRules, compile_node
from pykcp.machinery.cel.rules.correlation import Correlation, KeyedItems, Ratchet
from pykcp.machinery.cel.rules.field_paths import child, key
from pykcp.machinery.cel.rules.rule_runs import RuleRun, invalid, run_rules
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import FieldError

OBJECT_BUDGET = 10_000_000
"""What all rules together may cost on one object."""


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


class SchemaRules:
    """All rules of a schema. Build it once and keep it with the schema."""

    def __init__(self, schema: Schema, *, root: bool = True) -> None:
        """`root` means that the schema is that of a whole resource."""
        self._root = (
            _build(schema, schema, root=root, cardinality=1) if _holds_rules(schema) else None
        )
        self._schema = schema
        self._most: dict[int, int] = {}
        self.charged_fairly: bool | None = None
        """Kept by `expense`."""
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
        allow(OBJECT_WORK)
        run = RuleRun(tracked, limit, budget, [], warnings if warnings is not None else [])
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

    def programs(self) -> Iterator[Program]:
        """Everything that may be evaluated."""
        for node in self._root.walk() if self._root is not None else ():
            for rule in node.compiled.rules if node.compiled is not None else ():
                yield from (p for p in (rule.program, rule.message) if p is not None)

    def _cheap_up_to(self, size: int) -> bool:
        return self.most_cost(size) <= OBJECT_BUDGET

    def most_cost(self, size: int) -> int:
        """A bound for what all rules together cost on an object of so many octets."""
        if self._root is None:
            return 0
        rounded = 1 << max(size - 1, 1).bit_length()
        found = self._most.get(rounded)
        if found is None:
            found = self._most[rounded] = self._bound(rounded)
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


def _run(node: RuleNode, run: RuleRun, path: str, new: Any, old: Any, ratchet: Ratchet) -> None:
    if node.compiled is None:
        message = f"rule compiler initialization error: {node.broken}"
        run.errors.append(invalid(path, node.schema.type, message))
    else:
        run_rules(node.schema, node.compiled, run, path, new, old, ratchet)


def _validate(
    node: RuleNode, run: RuleRun, path: str, new: Any, old: Any, ratchet: Ratchet
) -> None:
    if new is None:
        return
    if node.compiled is not None or node.broken:
        _run(node, run, path, new, old, ratchet)
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
    node: RuleNode, items: RuleNode, run: RuleRun, path: str, new: list[Any], old: Any,
    ratchet: Ratchet,
) -> None:  # fmt: skip
    followed = KeyedItems(node.schema, old)
    for position, item in enumerate(new):
        below = ratchet.index(position)
        _validate(items, run, f"{path}[{position}]", item, followed.get(item), below)
        if run.out_of_budget():
            return


def _validate_map(
    node: RuleNode, run: RuleRun, path: str, new: dict[str, Any], old: dict[str, Any],
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
