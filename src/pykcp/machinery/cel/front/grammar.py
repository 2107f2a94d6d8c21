"""CEL's grammar as a transition network, used only for error messages.

Users see which tokens the reference parser expected, and that depends on where in its
network it stood. So the grammar is written down once more, as data: each element knows
the node it starts from, and from a node one can ask which tokens may come next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

EPSILON = "<eps>"
EOF = "<EOF>"
_TYPES = [
    "<EOF>", "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(",
    ")", ".", ",", "-", "!", "?", ":", "+", "*", "/", "%", "true", "false", "null", "FLOAT",
    "INT", "UINT", "STRING", "BYTES", "IDENT", "ESC_IDENT",
]  # fmt: skip
ORDER = {kind: i for i, kind in enumerate(_TYPES)}
_NAMES = {
    "FLOAT": "NUM_FLOAT", "INT": "NUM_INT", "UINT": "NUM_UINT", "STRING": "STRING",
    "BYTES": "BYTES", "IDENT": "IDENTIFIER", "ESC_IDENT": "ESC_IDENTIFIER", EOF: "<EOF>",
}  # fmt: skip


def show_tokens(kinds: set[str]) -> str:
    shown = [_NAMES.get(k, f"'{k}'") for k in sorted(kinds, key=ORDER.__getitem__)]
    return shown[0] if len(shown) == 1 else "{" + ", ".join(shown) + "}"


@dataclass(slots=True, eq=False)
class GrammarNode:
    """A position in a rule. `kind` determines the parser's error recovery there."""

    kind: str = "basic"
    skips: list[GrammarNode] = field(default_factory=list)
    """Places that are reached without reading anything."""
    reads: frozenset[str] = frozenset()
    calls: str = ""
    next: GrammarNode | None = None
    """Where reading or calling leads."""
    is_stop: bool = False


@dataclass(slots=True, eq=False)
class Element:
    """A piece of a rule: what to do, and the node where that starts."""

    op: str
    at: GrammarNode
    parts: list[Element] = field(default_factory=list)
    tokens: frozenset[str] = frozenset()
    rule: str = ""
    binding: int = 0
    back: GrammarNode | None = None
    """For loops: the node that is passed before every further turn."""
    adaptive: bool = False


class _Builder:
    """Links elements from the end of a rule to its beginning."""

    def tok(self, *kinds: str) -> object:
        return ("tok", frozenset(kinds))

    def build(self, spec: object, after: GrammarNode) -> Element:
        assert isinstance(spec, tuple)
        op = spec[0]
        if op == "tok":
            return Element("tok", GrammarNode(reads=spec[1], next=after), tokens=spec[1])
        if op == "rule":
            node = GrammarNode(calls=spec[1], next=after)
            return Element("rule", node, rule=spec[1], binding=spec[2])
        if op == "seq":
            parts: list[Element] = []
            for part in reversed(spec[1]):
                element = self.build(part, after)
                parts.insert(0, element)
                after = element.at
            return Element("seq", after, parts)
        if op == "opt":
            inner = self.build(spec[1], after)
            return Element("opt", GrammarNode("block", [inner.at, after]), [inner])
        if op == "alt":
            branches = [self.build(b, after) for b in spec[1]]
            block = GrammarNode("block", [b.at for b in branches])
            return Element("alt", block, branches, adaptive=spec[2])
        return self._loop(op, spec, after)

    def _loop(self, op: str, spec: tuple[object, ...], after: GrammarNode) -> Element:
        entry, back = GrammarNode("entry" if op != "plus" else "block"), GrammarNode("back")
        inner = self.build(spec[1], back)
        entry.skips = [inner.at] if op == "plus" else [inner.at, after]
        back.skips = [inner.at, after]
        return Element(
            str(op), entry, [inner], back=back, adaptive=bool(spec[2]) if len(spec) > 2 else False
        )


def _t(*kinds: str) -> tuple[object, ...]:
    return ("tok", frozenset(kinds))


def _r(name: str, binding: int = 0) -> tuple[object, ...]:
    return ("rule", name, binding)


def _s(*parts: object) -> tuple[object, ...]:
    return ("seq", list(parts))


def _maybe(*parts: object) -> tuple[object, ...]:
    return ("opt", _s(*parts))


def _star(*parts: object, adaptive: bool = False) -> tuple[object, ...]:
    return ("star", _s(*parts), adaptive)


def _plus(*parts: object, adaptive: bool = False) -> tuple[object, ...]:
    return ("plus", _s(*parts), adaptive)


def _alt(*branches: object, adaptive: bool = True) -> tuple[object, ...]:
    return ("alt", list(branches), adaptive)


def _left(*branches: object) -> tuple[object, ...]:
    """The loop that a left-recursive rule becomes."""
    return ("left", _alt(*branches) if len(branches) > 1 else branches[0])


_CALL = (_t("("), _maybe(_r("exprList")), _t(")"))
_SPECS: dict[str, tuple[object, ...]] = {
    "start": _s(_r("expr"), _t(EOF)),
    "expr": _s(
        _r("conditionalOr"), _maybe(_t("?"), _r("conditionalOr"), _t(":"), _r("expr"))
    ),
    "conditionalOr": _s(_r("conditionalAnd"), _star(_t("||"), _r("conditionalAnd"))),
    "conditionalAnd": _s(_r("relation"), _star(_t("&&"), _r("relation"))),
    "relation": _s(
        _r("calc"), _left(_s(_t("<", "<=", ">=", ">", "==", "!=", "in"), _r("relation", 2)))
    ),
    "calc": _s(
        _r("unary"),
        _left(_s(_t("*", "/", "%"), _r("calc", 3)), _s(_t("+", "-"), _r("calc", 2))),
    ),
    "unary": _alt(
        _s(_r("member")),
        _s(_plus(_t("!")), _r("member")),
        _s(_plus(_t("-"), adaptive=True), _r("member")),
    ),
    "member": _s(
        _r("primary"),
        _left(
            _s(_t("."), _maybe(_t("?")), _r("escapeIdent")),
            _s(_t("."), _t("IDENT"), *_CALL),
            _s(_t("["), _maybe(_t("?")), _r("expr"), _t("]")),
        ),
    ),
    "primary": _alt(
        _s(_maybe(_t(".")), _t("IDENT")),
        _s(_maybe(_t(".")), _t("IDENT"), *_CALL),
        _s(_t("("), _r("expr"), _t(")")),
        _s(_t("["), _maybe(_r("listInit")), _maybe(_t(",")), _t("]")),
        _s(_t("{"), _maybe(_r("mapInitializerList")), _maybe(_t(",")), _t("}")),
        _s(
            _maybe(_t(".")), _t("IDENT"), _star(_t("."), _t("IDENT")), _t("{"),
            _maybe(_r("fieldInitializerList")), _maybe(_t(",")), _t("}"),
        ),
        _s(_r("literal")),
    ),
    "exprList": _s(_r("expr"), _star(_t(","), _r("expr"))),
    "listInit": _s(_r("optExpr"), _star(_t(","), _r("optExpr"), adaptive=True)),
    "fieldInitializerList": _s(
        _r("optField"), _t(":"), _r("expr"),
        _star(_t(","), _r("optField"), _t(":"), _r("expr"), adaptive=True),
    ),
    "optField": _s(_maybe(_t("?")), _r("escapeIdent")),
    "mapInitializerList": _s(
        _r("optExpr"), _t(":"), _r("expr"),
        _star(_t(","), _r("optExpr"), _t(":"), _r("expr"), adaptive=True),
    ),
    "escapeIdent": _alt(_s(_t("IDENT")), _s(_t("ESC_IDENT")), adaptive=False),
    "optExpr": _s(_maybe(_t("?")), _r("expr")),
    "literal": _alt(
        _s(_maybe(_t("-")), _t("INT")), _s(_t("UINT")), _s(_maybe(_t("-")), _t("FLOAT")),
        _s(_t("STRING")), _s(_t("BYTES")), _s(_t("true")), _s(_t("false")), _s(_t("null")),
    ),
}  # fmt: skip


def _build_rules() -> dict[str, Element]:
    builder = _Builder()
    return {name: builder.build(spec, GrammarNode(is_stop=True)) for name, spec in _SPECS.items()}


RULES = _build_rules()
Stack = tuple[GrammarNode, ...]
"""Where to go on in the callers, the innermost last."""


_ALONE: dict[int, set[str]] = {}


def next_tokens(node: GrammarNode, stack: Stack | None) -> set[str]:
    """The tokens that may come at a node. Without a stack the end of the rule is EPSILON."""
    if stack is not None:
        return _next_tokens(node, stack)
    known = _ALONE.get(id(node))
    if known is None:
        known = _ALONE[id(node)] = _next_tokens(node, None)
    return known


def _next_tokens(node: GrammarNode, stack: Stack | None) -> set[str]:
    out: set[str] = set()
    seen: set[tuple[GrammarNode, Stack | None]] = set()
    todo: list[tuple[GrammarNode, Stack | None]] = [(node, stack)]
    while todo:
        here, callers = todo.pop()
        if (here, callers) in seen:
            continue
        seen.add((here, callers))
        if here.is_stop:
            if callers:
                todo.append((callers[-1], callers[:-1]))
            else:
                out.add(EPSILON if callers is None else EOF)
        elif here.calls:
            out |= _first(here.calls)
        elif here.reads:
            out |= here.reads
        todo += [(n, callers) for n in here.skips]
    return out


_FIRST: dict[str, set[str]] = {}


def _first(rule: str) -> set[str]:
    """The tokens that a rule may start with; none of CEL's rules is empty."""
    if rule not in _FIRST:
        _FIRST[rule] = next_tokens(RULES[rule].at, None) - {EPSILON}
    return _FIRST[rule]
