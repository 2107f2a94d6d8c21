"""The type checker: a type for every node, an overload for every call, or an error."""

from __future__ import annotations

from pykcp.machinery.cel.check import types
from pykcp.machinery.cel.check.environment import TYPE_IDENTS, Environment, Overload
from pykcp.machinery.cel.check.types import DYN, ERROR, Mapping, Type, unwrap_optional
from pykcp.machinery.cel.front.ast import (
    CallNode,
    Comprehension,
    EntryNode,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    Select,
    StructNode,
    children,
    qualified_name,
)
from pykcp.machinery.cel.front.source import Issues
from pykcp.machinery.cel.runtime.values import UInt


def check(root: Node, env: Environment, issues: Issues) -> None:
    """Sets `type` on all nodes and `overloads` on calls; complaints go to `issues`."""
    checker = _Checker(env, issues)
    checker.check(root)
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type is not None:
            node.type = checker.mapping.substitute(node.type, params_to_dyn=True)
        stack.extend(children(node))


def literal_type(value: object) -> Type:
    if value is None:
        return types.NULL
    if isinstance(value, bool):
        return types.BOOL
    if isinstance(value, UInt):
        return types.UINT
    if isinstance(value, int):
        return types.INT
    if isinstance(value, float):
        return types.DOUBLE
    return types.STRING if isinstance(value, str) else types.BYTES


_SCALAR_KINDS = frozenset(
    ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
)


def _is_closed(t: Type) -> bool:
    """Whether no type variable occurs in it."""
    return t.kind != "param" and all(map(_is_closed, t.params))


class _Checker:
    def __init__(self, env: Environment, issues: Issues) -> None:
        self.env = env
        self.issues = issues
        self.mapping = Mapping()
        self.fresh = 0
        self.scopes: list[dict[str, Type]] = []

    # --- helpers

    def new_variable(self) -> Type:
        self.fresh += 1
        return types.param(f"_var{self.fresh - 1}")

    def assignable(self, first: Type, second: Type) -> bool:
        return self.mapping.attempt((first,), (second,))

    def type_of(self, node: Node) -> Type:
        assert node.type is not None
        return node.type

    def mismatch(self, node: Node, expected: Type, actual: Type) -> None:
        self.issues.report(node.offset, f"expected type '{expected}' but found '{actual}'")

    def undeclared(self, node: Node, name: str) -> None:
        self.issues.report(node.offset, f"undeclared reference to '{name}' (in container '')")
        node.type = ERROR

    def lookup(self, name: str) -> tuple[Type, object] | None:
        """The type of an identifier and, for the name of a type, its value."""
        plain = name.removeprefix(".")
        if name == plain:
            for scope in reversed(self.scopes):
                if name in scope:
                    return scope[name], None
        variable = self.env.variables.get(plain)
        if variable is not None:
            return variable.type, None
        found = TYPE_IDENTS.get(plain)
        if found is not None:
            return found
        struct = self.env.struct_types.get(plain)
        return (types.type_of(struct), None) if struct is not None else None

    # --- nodes

    def check(self, node: Node) -> None:
        match node:
            case Literal():
                node.type = literal_type(node.value)
            case Ident():
                self.ident(node)
            case Select():
                self.select(node)
            case CallNode():
                self.call(node)
            case ListExpr():
                self.list_literal(node)
            case MapExpr():
                self.map_literal(node)
            case StructNode():
                self.struct_literal(node)
            case Comprehension():
                self.comprehension(node)

    def ident(self, node: Ident) -> None:
        found = self.lookup(node.name)
        if found is None:
            self.undeclared(node, node.name)
            return
        node.type, node.constant = found
        node.name = node.name.removeprefix(".")

    def select(self, node: Select) -> None:
        name = qualified_name(node)
        if name is not None:
            found = self.lookup(name)
            if found is not None:
                resolved = Ident(node.offset, name.removeprefix("."))
                node.type, resolved.constant = found
                resolved.type = node.type
                node.resolved = resolved
                return
        result = self.field(node, node.operand, node.field, optional=False)
        node.type = types.BOOL if node.test_only else self.mapping.substitute(result)

    def field(self, node: Node, operand: Node, name: str, *, optional: bool) -> Type:
        self.check(operand)
        target, was_optional = unwrap_optional(self.mapping.substitute(self.type_of(operand)))
        result = DYN
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            result = self.struct_field(node.offset, target, name)
        elif target.kind == "param":
            self.assignable(DYN, target)
        elif not types.is_dyn_or_error(target):
            self.issues.report(node.offset, f"type '{target}' does not support field selection")
        return types.optional_of(result) if optional or was_optional else result

    def struct_field(self, offset: int, struct: Type, name: str) -> Type:
        if not self.env.knows_struct(struct):
            self.issues.report(offset, f"unexpected failed resolution of '{struct.name}'")
            return ERROR
        found = self.env.field_type(struct, name)
        if found is None:
            self.issues.report(offset, f"undefined field '{name}'")
            return ERROR
        return found

    def call(self, node: CallNode) -> None:
        if node.function == "_?._":
            self.optional_select(node)
            return
        for arg in node.args:
            self.check(arg)
        if node.target is None:
            self.resolve_named(node, node.function)
            return
        prefix = qualified_name(node.target)
        if prefix is not None:
            name = f"{prefix}.{node.function}".removeprefix(".")
            if name in self.env.functions:
                node.target, node.function = None, name
                self.resolve_named(node, name)
                return
        self.check(node.target)
        self.resolve_named(node, node.function)

    def resolve_named(self, node: CallNode, name: str) -> None:
        plain = name.removeprefix(".") if node.target is None else name
        overloads = self.env.functions.get(plain)
        if overloads is None:
            self.undeclared(node, name)
            return
        node.function = plain
        self.resolve(node, overloads)

    def optional_select(self, node: CallNode) -> None:
        operand, field = node.args
        assert isinstance(field, Literal)
        field.type = types.STRING
        result = self.field(node, operand, field.value, optional=True)
        node.type = self.mapping.substitute(result)
        node.overloads = ("select_optional_field",)

    def resolve(self, node: CallNode, overloads: tuple[Overload, ...]) -> None:
        args = [node.target, *node.args] if node.target is not None else node.args
        arg_types = tuple(self.type_of(a) for a in args)
        if node.function in ("_&&_", "_||_"):
            self.logical(node, arg_types, overloads[0])
            return
        key = None
        if all(t.kind in _SCALAR_KINDS for t in arg_types):
            key = (node.function, node.target is not None, *(t.kind for t in arg_types))
            known = self.env.resolved.get(key)
            if known is not None:
                node.type, node.overloads = known
                return
        self.resolve_anew(node, overloads, arg_types)
        found = self.type_of(node)
        if key is not None and node.overloads and _is_closed(found):
            self.env.resolved[key] = found, node.overloads

    def resolve_anew(
        self, node: CallNode, overloads: tuple[Overload, ...], arg_types: tuple[Type, ...]
    ) -> None:
        result: Type | None = None
        matching: list[str] = []
        for overload in overloads:
            if overload.member != (node.target is not None):
                continue
            wanted, returned = self.instantiate(overload)
            if not self.mapping.attempt(arg_types, wanted):
                continue
            matching.append(overload.id)
            returned = self.mapping.substitute(returned)
            if result is None:
                result = returned
            elif result.kind != "dyn" and returned != result:
                result = DYN
        if result is None:
            self.no_overload(node, arg_types)
            return
        node.type, node.overloads = result, tuple(matching)

    def logical(self, node: CallNode, arg_types: tuple[Type, ...], overload: Overload) -> None:
        node.type, node.overloads = types.BOOL, (overload.id,)
        for arg, found in zip(node.args, arg_types, strict=True):
            if not self.assignable(found, types.BOOL):
                self.mismatch(arg, types.BOOL, found)
                node.type = ERROR

    def instantiate(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The signature with fresh type variables."""
        if not overload.params:
            return overload.args, overload.result
        fresh = Mapping({name: self.new_variable() for name in overload.params})
        return tuple(fresh.substitute(a) for a in overload.args), fresh.substitute(overload.result)

    def no_overload(self, node: CallNode, arg_types: tuple[Type, ...]) -> None:
        shown = [str(self.mapping.substitute(t, params_to_dyn=True)) for t in arg_types]
        target = ""
        if node.target is not None:
            target, shown = f"{shown[0]}.", shown[1:]
        self.issues.report(
            node.offset,
            f"found no matching overload for '{node.function}' applied to "
            f"'{target}({', '.join(shown)})'",
        )
        node.type = ERROR

    def join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.assignable(previous, current):
            return types.most_general(previous, current)
        return DYN  # mixed literals are refused later, by a validator

    def element_type(self, node: Node, optional: bool) -> Type:
        """The type that an element adds to its list or map."""
        found = self.type_of(node)
        if not optional:
            return found
        inner, was_optional = unwrap_optional(found)
        if not was_optional and inner.kind != "dyn":
            self.mismatch(node, types.optional_of(inner), inner)
        return inner

    def list_literal(self, node: ListExpr) -> None:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            self.check(element)
            found = self.element_type(element, index in node.optional)
            joined = self.join(joined, found)
        node.type = types.list_of(joined if joined is not None else self.new_variable())

    def map_literal(self, node: MapExpr) -> None:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            self.check(entry.key)
            keys = self.join(keys, self.type_of(entry.key))
            self.check(entry.value)
            found = self.element_type(entry.value, entry.optional)
            values = self.join(values, found)
        if keys is None or values is None:
            keys, values = self.new_variable(), self.new_variable()
        node.type = types.map_of(keys, values)

    def struct_literal(self, node: StructNode) -> None:
        found = self.lookup(node.name)
        if found is None:
            self.undeclared(node, node.name)
            return
        node.type = ERROR
        kind, _ = found
        if kind.kind != "type":
            self.issues.report(node.offset, f"'{kind.name}' is not a type")
        elif kind.params and kind.params[0].kind == "struct":
            node.type = kind.params[0]
        else:
            name = kind.params[0].name if kind.params else "type"
            self.issues.report(node.offset, f"'{name}' is not a message type")
        for entry in node.entries:
            self.struct_entry(node, entry)

    def struct_entry(self, node: StructNode, entry: EntryNode) -> None:
        self.check(entry.value)
        assert isinstance(entry.key, Literal)
        entry.key.type = types.STRING
        wanted = ERROR
        if node.type is not None and node.type.kind == "struct":
            wanted = self.struct_field(entry.offset, node.type, entry.key.value)
        found = self.element_type(entry.value, entry.optional)
        if not self.assignable(wanted, found):
            self.issues.report(
                entry.offset,
                f"expected type of field '{entry.key.value}' is '{wanted}' "
                f"but provided type is '{found}'",
            )

    def comprehension(self, node: Comprehension) -> None:
        self.check(node.iter_range)
        self.check(node.accu_init)
        over = self.mapping.substitute(self.type_of(node.iter_range))
        accu = self.type_of(node.accu_init)
        self.scopes.append({node.accu_var: accu})
        first, second = self.iteration_types(node, over)
        scope = {node.iter_var: first}
        if node.iter_var2:
            scope[node.iter_var2] = second
        self.scopes.append(scope)
        self.check(node.condition)
        self.expect(node.condition, types.BOOL)
        self.check(node.step)
        self.expect(node.step, accu)
        self.scopes.pop()
        self.check(node.result)
        self.scopes.pop()
        node.type = self.mapping.substitute(self.type_of(node.result))

    def iteration_types(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        """What the one or two variables of a comprehension are."""
        if over.kind == "list":
            return (types.INT, over.params[0]) if node.iter_var2 else (over.params[0], DYN)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind in ("dyn", "error", "param"):
            self.assignable(DYN, over)
            return DYN, DYN
        self.issues.report(
            node.iter_range.offset,
            f"expression of type '{over}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def expect(self, node: Node, wanted: Type) -> None:
        if not self.assignable(wanted, self.type_of(node)):
            self.mismatch(node, wanted, self.type_of(node))
