"""Tokens to tree.

A recursive descent over CEL's grammar. It stops at the first syntax error; the texts
that users see for those come from `syntax`, which follows the reference parser's way
of reporting and recovering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pykcp.machinery.cel.front.ast import (
    CallNode,
    EntryNode,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    Select,
    StructNode,
    count,
)
from pykcp.machinery.cel.front.lexer import EOF, Token, tokenize
from pykcp.machinery.cel.front.literals import LiteralError, integer, unquote, unquote_bytes
from pykcp.machinery.cel.front.macros import REPEATING, Key, Macro, MacroError
from pykcp.machinery.cel.front.source import NO_PLACE, Issues
from pykcp.machinery.cel.runtime.values import INT_MAX, INT_MIN, UINT_MAX, UInt

MAX_CODE_POINTS = 100_000
MAX_RECURSION = 250
MAX_REPEATED = 5_000
"""Nodes that macros may add by writing a term twice. Upstream has no such limit."""
_RESERVED = frozenset((
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import",
    "in", "let", "loop", "package", "namespace", "null", "return", "true", "var", "void",
    "while",
))  # fmt: skip
_RELATIONS = {
    "<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in",
}  # fmt: skip
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
_SUMS = {"+": "_+_", "-": "_-_"}


class _Stop(Exception):
    """Parsing cannot go on; `message` is None after a plain syntax error."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.message = message


def parse(text: str, macros: Mapping[Key, Macro], issues: Issues) -> Node | None:
    """The tree of `text`, or None when `issues` says why not."""
    if len(text) > MAX_CODE_POINTS:
        issues.report(
            NO_PLACE,
            f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CODE_POINTS}",
        )
        return None
    tokens = tokenize(text, issues)
    parser = _Parser(tokens, macros, issues)
    try:
        node = parser.start()
    except _Stop as stop:
        if stop.message is not None:
            issues.report(NO_PLACE, stop.message)
        else:
            from pykcp.machinery.cel.front import syntax

            syntax.explain(tokens, issues)
        return None
    if not issues and node.depth > MAX_RECURSION:
        issues.report(NO_PLACE, "max recursion depth exceeded")
    return node


class _Parser:
    def __init__(self, tokens: list[Token], macros: Mapping[Key, Macro], issues: Issues) -> None:
        self.tokens = tokens
        self.macros = macros
        self.issues = issues
        self.at = 0
        self.depth = {"expr": 0, "relation": 0, "calc": 0}
        self.repeated = 0

    # --- tokens

    def kind(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.tokens[index].kind if index < len(self.tokens) else EOF

    def take(self, kind: str) -> Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            raise _Stop
        self.at += 1
        return token

    def accept(self, kind: str) -> bool:
        if self.tokens[self.at].kind == kind:
            self.at += 1
            return True
        return False

    def enter(self, rule: str) -> None:
        self.depth[rule] += 1
        if self.depth[rule] > MAX_RECURSION:
            raise _Stop(f"expression recursion limit exceeded: {MAX_RECURSION}")

    def leave(self, rule: str) -> None:
        self.depth[rule] -= 1

    # --- rules

    def start(self) -> Node:
        node = self.expr()
        self.take(EOF)
        return node

    def expr(self) -> Node:
        self.enter("expr")
        node = self.logical("||", "_||_")
        if self.kind() == "?":
            op = self.take("?")
            then = self.logical("||", "_||_")
            self.take(":")
            other = self.expr()
            node = _deeper(CallNode(op.offset, "_?_:_", [node, then, other]))
        self.leave("expr")
        return node

    def logical(self, op: str, function: str) -> Node:
        """Chains of || and && become balanced trees, so that long ones stay shallow."""
        terms = [self.logical_term(op)]
        offsets: list[int] = []
        while self.kind() == op:
            offsets.append(self.take(op).offset)
            terms.append(self.logical_term(op))
        return _balance(function, terms, offsets, 0, len(offsets) - 1) if offsets else terms[0]

    def logical_term(self, op: str) -> Node:
        return self.logical("&&", "_&&_") if op == "||" else self.relation(0)

    def relation(self, binding: int) -> Node:
        self.enter("relation")
        node = self.calc(0)
        while binding == 0 and self.kind() in _RELATIONS:
            op = self.take(self.kind())
            right = self.relation(1)
            node = _deeper(CallNode(op.offset, _RELATIONS[op.kind], [node, right]))
        self.leave("relation")
        return node

    def calc(self, binding: int) -> Node:
        """`binding` 0 takes sums and products, 1 products, 2 neither."""
        self.enter("calc")
        node = self.unary()
        while True:
            kind = self.kind()
            if kind in _PRODUCTS and binding <= 1:
                op, function, tighter = self.take(kind), _PRODUCTS[kind], 2
            elif kind in _SUMS and binding == 0:
                op, function, tighter = self.take(kind), _SUMS[kind], 1
            else:
                break
            node = _deeper(CallNode(op.offset, function, [node, self.calc(tighter)]))
        self.leave("calc")
        return node

    def unary(self) -> Node:
        kind = self.kind()
        if kind == "!" or (kind == "-" and self.kind(1) not in ("INT", "FLOAT")):
            first = self.take(kind)
            count = 1
            while self.accept(kind):
                count += 1
            node = self.member()
            if count % 2 == 0:
                return node
            return CallNode(first.offset, "!_" if kind == "!" else "-_", [node])
        return self.member()

    def member(self) -> Node:
        node = self.primary()
        while True:
            if self.kind() == ".":
                node = self.after_dot(node)
            elif self.kind() == "[":
                op = self.take("[")
                function = "_[?_]" if self.accept("?") else "_[_]"
                index = self.expr()
                self.take("]")
                node = _deeper(CallNode(op.offset, function, [node, index]))
            else:
                return node

    def after_dot(self, operand: Node) -> Node:
        op = self.take(".")
        if self.accept("?"):
            name = self.field_name()
            field = Literal(name.offset, name.text)
            return _deeper(CallNode(op.offset, "_?._", [operand, field]))
        name = self.field_name()
        if name.kind == "IDENT" and self.kind() == "(":
            opened = self.take("(")
            args = self.arguments()
            node = self.call(opened.offset, name.text, args, operand)
            node.depth = max(operand.depth, *(a.depth for a in args), 0) + 1
            return node
        return _deeper(Select(op.offset, operand, name.text))

    def field_name(self) -> Token:
        if self.kind() == "ESC_IDENT":
            token = self.take("ESC_IDENT")
            self.issues.report(token.offset, "unsupported syntax: '`'")
            return token
        return self.take("IDENT")

    def arguments(self) -> list[Node]:
        """What stands between the parentheses, the closing one included."""
        if self.accept(")"):
            return []
        args = [self.expr()]
        while self.accept(","):
            args.append(self.expr())
        self.take(")")
        return args

    def call(self, offset: int, name: str, args: list[Node], target: Node | None) -> Node:
        macro = self.macros.get((name, len(args), target is not None)) or self.macros.get(
            (name, -1, target is not None)
        )
        if macro is not None:
            try:
                expanded = macro(offset, target, args)
            except MacroError as error:
                self.issues.report(error.offset, error.message)
                return Literal(offset, None)
            if expanded is not None:
                if name in REPEATING and target is not None:
                    self.count_repeated(target)
                return expanded
        return CallNode(offset, name, args, target)

    def count_repeated(self, target: Node) -> None:
        """Macros that write their target twice, nested, would grow without bound."""
        self.repeated += count(target)
        if self.repeated > MAX_REPEATED:
            raise _Stop(f"expression repeats more than {MAX_REPEATED} terms in nested macros")

    def primary(self) -> Node:
        token = self.tokens[self.at]
        match token.kind:
            case "(":
                self.at += 1
                node = self.expr()
                self.take(")")
                return node
            case "[":
                return self.list_literal()
            case "{":
                self.at += 1
                return MapExpr(token.offset, self.entries(self.map_key))
            case "IDENT" | ".":
                return self.named()
            case _:
                return self.literal()

    def named(self) -> Node:
        start = self.tokens[self.at]
        dot = "." if self.accept(".") else ""
        name = self.take("IDENT")
        ahead = 0
        while self.kind(ahead) == "." and self.kind(ahead + 1) == "IDENT":
            ahead += 2
        if self.kind(ahead) == "{":
            return self.message(dot + name.text)
        if self.kind() == "(":
            opened = self.take("(")
            if name.text in _RESERVED:
                self.arguments()
                return self.reserved(start, name)
            return self.call(opened.offset, dot + name.text, self.arguments(), None)
        if name.text in _RESERVED:
            return self.reserved(start, name)
        return Ident(name.offset, dot + name.text)

    def reserved(self, start: Token, name: Token) -> Node:
        self.issues.report(start.offset, f"reserved identifier: {name.text}")
        return Literal(start.offset, None)

    def message(self, name: str) -> Node:
        while self.accept("."):
            name += "." + self.take("IDENT").text
        opened = self.take("{")
        return StructNode(opened.offset, name, self.entries(self.struct_key))

    def entries(self, key_rule: object) -> list[EntryNode]:
        out: list[EntryNode] = []
        while self.kind() not in ("}", ","):
            optional = self.accept("?")
            key = self.map_key() if key_rule == self.map_key else self.struct_key()
            colon = self.take(":")
            out.append(EntryNode(colon.offset, key, self.expr(), optional))
            if self.kind() != "," or self.kind(1) == "}":
                break
            self.take(",")
            if self.kind() == ",":
                raise _Stop
        self.accept(",")
        self.take("}")
        return out

    def map_key(self) -> Node:
        return self.expr()

    def struct_key(self) -> Node:
        name = self.field_name()
        return Literal(name.offset, name.text)

    def list_literal(self) -> Node:
        opened = self.take("[")
        elements: list[Node] = []
        optional: set[int] = set()
        while self.kind() not in ("]", ","):
            if self.accept("?"):
                optional.add(len(elements))
            elements.append(self.expr())
            if self.kind() != "," or self.kind(1) == "]":
                break
            self.take(",")
            if self.kind() == ",":
                raise _Stop
        self.accept(",")
        self.take("]")
        return ListExpr(opened.offset, elements, frozenset(optional))

    def literal(self) -> Node:
        start = self.tokens[self.at]
        negative = self.accept("-")
        token = self.tokens[self.at]
        if negative and token.kind not in ("INT", "FLOAT"):
            raise _Stop
        sign = "-" if negative else ""
        self.at += 1
        match token.kind:
            case "INT":
                number = integer(sign + token.text)
                if not INT_MIN <= number <= INT_MAX:
                    self.issues.report(start.offset, "invalid int literal")
                return Literal(start.offset, number)
            case "UINT":
                number = integer(token.text[:-1])
                if number > UINT_MAX:
                    self.issues.report(start.offset, "invalid uint literal")
                return Literal(start.offset, UInt(number))
            case "FLOAT":
                value = float(sign + token.text)
                if value in (float("inf"), float("-inf")):
                    self.issues.report(start.offset, "invalid double literal")
                return Literal(start.offset, value)
            case "STRING":
                return Literal(start.offset, self.unquoted(token, unquote, token.text))
            case "BYTES":
                return Literal(start.offset, self.unquoted(token, unquote_bytes, token.text[1:]))
            case "true" | "false":
                return Literal(start.offset, token.kind == "true")
            case "null":
                return Literal(start.offset, None)
            case _:
                self.at -= 1
                raise _Stop

    def unquoted(self, token: Token, read: Callable[[str], str | bytes], text: str) -> str | bytes:
        try:
            return read(text)
        except LiteralError as error:
            self.issues.report(token.offset, str(error))
            return ""


def _deeper(node: Node) -> Node:
    node.depth += 1
    return node


def _balance(function: str, terms: list[Node], offsets: list[int], low: int, high: int) -> Node:
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balance(function, terms, offsets, low, middle - 1)
    right = (
        terms[middle + 1]
        if middle == high
        else _balance(function, terms, offsets, middle + 1, high)
    )
    return CallNode(offsets[middle], function, [left, right])
