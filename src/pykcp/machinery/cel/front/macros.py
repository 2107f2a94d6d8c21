"""Macros: calls that the parser rewrites before anything else sees them.

Each takes the place of the call, the target and the arguments, and returns the
expression it stands for, or None to leave the call as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from pykcp.machinery.cel.front.ast import (
    ACCUMULATOR,
    CallNode,
    Comprehension,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    Select,
    copy,
)


class MacroError(Exception):
    """The call is a macro's, but its arguments are not."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


Macro = Callable[[int, Node | None, list[Node]], Node | None]
Key = tuple[str, int, bool]
"""Name, number of arguments (-1: any), whether it is called on a target."""

_SIMPLE_NAME = "argument must be a simple name"
_OVERWRITES = "iteration variable overwrites accumulator variable"
_UNUSED = "#unused"


class _Make:
    """Nodes that all point to the macro's place."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def accu(self) -> Ident:
        return Ident(self.offset, ACCUMULATOR)

    def literal(self, value: object) -> Literal:
        return Literal(self.offset, value)

    def call(self, function: str, *args: Node) -> CallNode:
        return CallNode(self.offset, function, list(args))

    def member(self, function: str, target: Node, *args: Node) -> CallNode:
        return CallNode(self.offset, function, list(args), target)

    def list(self, *elements: Node) -> ListExpr:
        return ListExpr(self.offset, list(elements), frozenset())

    def fold(
        self, over: Node, names: tuple[str, str], init: Node, condition: Node, step: Node,
        result: Node,
    ) -> Comprehension:  # fmt: skip
        return Comprehension(
            self.offset,
            iter_range=over,
            iter_var=names[0],
            iter_var2=names[1],
            accu_var=ACCUMULATOR,
            accu_init=init,
            condition=condition,
            step=step,
            result=result,
        )

    def bind(self, name: str, value: Node, result: Node) -> Comprehension:
        return Comprehension(
            self.offset,
            iter_range=self.list(),
            iter_var=_UNUSED,
            accu_var=name,
            accu_init=value,
            condition=self.literal(False),
            step=Ident(self.offset, name),
            result=result,
        )


def _name(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.offset, message)
    return node.name


def _one_name(args: list[Node], message: str = _SIMPLE_NAME) -> tuple[str, str]:
    name = _name(args[0], message)
    if name == ACCUMULATOR:
        raise MacroError(args[0].offset, _OVERWRITES)
    return name, ""


def _two_names(args: list[Node]) -> tuple[str, str]:
    first, second = _name(args[0], _SIMPLE_NAME), _name(args[1], _SIMPLE_NAME)
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {first}")
    for arg, name in ((args[0], first), (args[1], second)):
        if name == ACCUMULATOR:
            raise MacroError(arg.offset, _OVERWRITES)
    return first, second


def _has(offset: int, _target: Node | None, args: list[Node]) -> Node:
    arg = args[0]
    if not isinstance(arg, Select):
        raise MacroError(arg.offset, "invalid argument to has() macro")
    out = Select(offset, arg.operand, arg.field, test_only=True)
    out.depth = arg.depth
    return out


def _all(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    make, names = _Make(offset), _one_name(args) if len(args) == 2 else _two_names(args)
    return make.fold(
        target, names, make.literal(True), make.call("@not_strictly_false", make.accu()),
        make.call("_&&_", make.accu(), args[-1]), make.accu(),
    )  # fmt: skip


def _exists(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    make, names = _Make(offset), _one_name(args) if len(args) == 2 else _two_names(args)
    condition = make.call("@not_strictly_false", make.call("!_", make.accu()))
    return make.fold(
        target, names, make.literal(False), condition,
        make.call("_||_", make.accu(), args[-1]), make.accu(),
    )  # fmt: skip


def _exists_one(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    make, names = _Make(offset), _one_name(args) if len(args) == 2 else _two_names(args)
    more = make.call("_+_", make.accu(), make.literal(1))
    return make.fold(
        target, names, make.literal(0), make.literal(True),
        make.call("_?_:_", args[-1], more, make.accu()),
        make.call("_==_", make.accu(), make.literal(1)),
    )  # fmt: skip


def _to_list(
    make: _Make, target: Node, names: tuple[str, str], condition: Node | None, value: Node
) -> Node:
    step: Node = make.call("_+_", make.accu(), make.list(value))
    if condition is not None:
        step = make.call("_?_:_", condition, step, make.accu())
    return make.fold(target, names, make.list(), make.literal(True), step, make.accu())


def _map(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    names = _one_name(args, "argument is not an identifier")
    condition = args[1] if len(args) == 3 else None
    return _to_list(_Make(offset), target, names, condition, args[-1])


def _filter(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    names = _one_name(args, "argument is not an identifier")
    return _to_list(_Make(offset), target, names, args[1], args[0])


def _transform_list(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    condition = args[2] if len(args) == 4 else None
    return _to_list(_Make(offset), target, _two_names(args), condition, args[-1])


def _to_map(offset: int, target: Node, args: list[Node], step: CallNode) -> Node:
    make, names = _Make(offset), _two_names(args)
    guarded: Node = step
    if len(args) == 4:
        guarded = make.call("_?_:_", args[2], step, make.accu())
    return make.fold(target, names, MapExpr(offset, []), make.literal(True), guarded, make.accu())


def _transform_map(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    make, (key, _) = _Make(offset), _two_names(args)
    step = make.call("cel.@mapInsert", make.accu(), Ident(offset, key), args[-1])
    return _to_map(offset, target, args, step)


def _transform_map_entry(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    make = _Make(offset)
    _two_names(args)
    return _to_map(offset, target, args, make.call("cel.@mapInsert", make.accu(), args[-1]))


def _opt_map(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    make = _Make(offset)
    name = _name(args[0], "optMap() variable name must be a simple identifier")
    bound = make.bind(name, make.member("value", copy(target)), args[1])
    return make.call(
        "_?_:_", make.member("hasValue", target), make.call("optional.of", bound),
        make.call("optional.none"),
    )  # fmt: skip


def _opt_flat_map(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    make = _Make(offset)
    name = _name(args[0], "optFlatMap() variable name must be a simple identifier")
    bound = make.bind(name, make.member("value", copy(target)), args[1])
    return make.call("_?_:_", make.member("hasValue", target), bound, make.call("optional.none"))


SORTED_INPUT = "@__sortBy_input__"
_SORTABLE = (
    "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
)


def _sort_by(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    if isinstance(target, Literal | MapExpr):
        raise MacroError(target.offset, _SORTABLE)
    make = _Make(offset)
    keys = _map(offset, Ident(offset, SORTED_INPUT), args)
    call = make.member("@sortByAssociatedKeys", Ident(offset, SORTED_INPUT), keys)
    return make.bind(SORTED_INPUT, target, call)


def _bind(offset: int, target: Node | None, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = _name(args[0], "cel.bind() variable names must be simple identifiers")
    return _Make(offset).bind(name, args[1], args[2])


def _extreme(kind: str) -> Macro:
    """math.greatest and math.least: pairs folded from the left."""
    function, label = (
        ("math.@max", "math.greatest()") if kind == "greatest" else ("math.@min", "math.least()")
    )

    def expand(offset: int, target: Node | None, args: list[Node]) -> Node | None:
        if not isinstance(target, Ident) or target.name != "math":
            return None
        if not args:
            raise MacroError(target.offset, f"{label} requires at least one argument")
        for arg in args:
            _check_numeric(arg, label, alone=len(args) == 1)
        make = _Make(offset)
        if len(args) <= 2:
            return make.call(function, *args)
        return make.call(function, make.list(*args))

    return expand


def _check_numeric(arg: Node, label: str, *, alone: bool) -> None:
    if alone and isinstance(arg, ListExpr):
        if not arg.elements or not all(_may_be_number(e) for e in arg.elements):
            raise MacroError(arg.offset, f"{label} invalid single argument value")
        return
    if not _may_be_number(arg):
        kind = "single argument value" if alone else "simple literal arguments must be numeric"
        raise MacroError(arg.offset, f"{label} invalid {kind}" if alone else f"{label} {kind}")


def _may_be_number(node: Node) -> bool:
    if isinstance(node, Literal):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return not isinstance(node, ListExpr | MapExpr)


REPEATING = frozenset({"optMap", "optFlatMap"})
"""Macros that use their target twice."""

STANDARD: dict[Key, Macro] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("exists", 2, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
}
OPTIONAL: dict[Key, Macro] = {("optMap", 2, True): _opt_map, ("optFlatMap", 2, True): _opt_flat_map}
TWO_VARIABLES: dict[Key, Macro] = {
    ("all", 3, True): _all,
    ("exists", 3, True): _exists,
    ("existsOne", 3, True): _exists_one,
    ("exists_one", 3, True): _exists_one,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
LISTS: dict[Key, Macro] = {("sortBy", 2, True): _sort_by}
BINDINGS: dict[Key, Macro] = {("bind", 3, True): _bind}
MATH: dict[Key, Macro] = {
    ("greatest", -1, True): _extreme("greatest"),
    ("least", -1, True): _extreme("least"),
}
