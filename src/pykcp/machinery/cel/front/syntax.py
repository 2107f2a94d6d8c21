"""Messages for expressions that do not parse.

Which messages there are, and how many, follows from how the reference parser (an ANTLR
one) reports an error and goes on: it drops or invents a token where that helps, else
leaves the rule and skips to what may follow it. This walks the grammar in the same way
and only ever serves to explain a failure; `parser` does the parsing.
"""

from __future__ import annotations

import re

from pykcp.machinery.cel.front.grammar import (
    EOF,
    EPSILON,
    RULES,
    Element,
    GrammarNode,
    Stack,
    next_tokens,
    show_tokens,
)
from pykcp.machinery.cel.front.lexer import Token
from pykcp.machinery.cel.front.source import NO_PLACE, Issues

_MAX_REPORTS = 100
_MAX_RECOVERIES = 30
_MAX_SKIPPED = 256
_MAX_LOOKAHEAD = 2000
_MAX_DEPTH = 250
_KEYWORD = re.compile(r"no viable alternative at input '.(true|false|null)'")
_LEFT_BINDING = {
    **dict.fromkeys(("*", "/", "%"), 2),
    **dict.fromkeys(("+", "-"), 1),
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 1),
    ".": 3,
    "[": 1,
}


class _Mismatch(Exception):
    """The rule cannot go on; `message` and `token` say why and where."""

    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message)
        self.message = message
        self.token = token


class _GiveUp(Exception):
    pass


Config = tuple[int, GrammarNode, Stack, bool]
"""Alternative, place, callers, and whether the deciding rule has been left."""


def explain(tokens: list[Token], issues: Issues) -> None:
    """Reports what is wrong with tokens that do not parse."""
    try:
        _Explainer(tokens, issues).rule("start", ())
    except _GiveUp:
        pass
    except RecursionError:
        issues.report(NO_PLACE, f"expression recursion limit exceeded: {_MAX_DEPTH}")
    if not issues:
        issues.report(tokens[-1].offset, "Syntax error: unexpected input")


class _Explainer:
    def __init__(self, tokens: list[Token], issues: Issues) -> None:
        self.tokens = tokens
        self.issues = issues
        self.at = 0
        self.node = RULES["start"].at
        self.recovering = False
        self.reports = 0
        self.recoveries = 0
        self.last_error: tuple[int, set[int]] = (-1, set())
        self.depth = 0

    # --- tokens

    def token(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def kind(self, ahead: int = 0) -> str:
        return self.token(ahead).kind

    def consume(self) -> None:
        if self.at < len(self.tokens) - 1:
            self.at += 1

    def accept(self) -> None:
        """The current token is what was expected."""
        self.recovering = False
        self.last_error = (-1, set())
        self.consume()

    # --- reporting

    def report(self, message: str, token: Token) -> None:
        found = _KEYWORD.search(message)
        if found is not None:
            replaced = f"mismatched input '{found.group(1)}' expecting IDENTIFIER"
            message = message.replace(found.group(), replaced)
        if self.reports >= _MAX_REPORTS:
            self.issues.report(
                token.offset, f"Syntax error: More than {_MAX_REPORTS} syntax errors"
            )
            raise _GiveUp
        self.reports += 1
        self.issues.report(token.offset, f"Syntax error: {message}")

    def complain(self, message: str, token: Token) -> None:
        """Reports unless one error already led here."""
        if not self.recovering:
            self.recovering = True
            self.report(message, token)

    def count_recovery(self) -> None:
        if self.recoveries == _MAX_RECOVERIES:
            self.report(f"error recovery attempt limit exceeded: {_MAX_RECOVERIES}", self.token())
            raise _GiveUp
        self.recoveries += 1

    def expected(self, stack: Stack) -> set[str]:
        return next_tokens(self.node, stack)

    # --- recovery

    def mismatch(self, stack: Stack) -> _Mismatch:
        token = self.token()
        wanted = show_tokens(self.expected(stack))
        return _Mismatch(f"mismatched input {_shown(token)} expecting {wanted}", token)

    def delete_token(self, stack: Stack) -> bool:
        """Whether things fit once the current token is left out."""
        wanted = self.expected(stack)
        if self.kind(1) not in wanted or self.kind() == EOF:
            return False
        self.unwanted(stack)
        self.consume()
        self.recovering = False
        return True

    def unwanted(self, stack: Stack) -> None:
        token = self.token()
        wanted = show_tokens(self.expected(stack))
        self.complain(f"extraneous input {_shown(token)} expecting {wanted}", token)

    def match(self, element: Element, stack: Stack) -> None:
        self.node = element.at
        if self.kind() in element.tokens:
            self.accept()
            return
        self.count_recovery()
        if self.delete_token(stack):
            self.accept()
            return
        assert element.at.next is not None
        if self.kind() in next_tokens(element.at.next, stack):
            token = self.token()
            wanted = show_tokens(self.expected(stack))
            self.complain(f"missing {wanted} at {_shown(token)}", token)
            return
        raise self.mismatch(stack)

    def sync(self, node: GrammarNode, stack: Stack) -> None:
        """At a decision: makes sure that the next token can be decided about."""
        self.node = node
        if self.recovering:
            return
        possible = next_tokens(node, None)
        if EPSILON in possible or self.kind() in possible:
            return
        if node.kind == "back":
            self.unwanted(stack)
            self.skip_to(self.expected(stack) | self.follow(stack))
            return
        if not self.delete_token(stack):
            raise self.mismatch(stack)

    def follow(self, stack: Stack) -> set[str]:
        out: set[str] = set()
        for node in stack:
            out |= next_tokens(node, None)
        return out - {EPSILON}

    def skip_to(self, kinds: set[str]) -> None:
        skipped = 0
        while self.kind() != EOF and self.kind() not in kinds:
            if skipped >= _MAX_SKIPPED:
                self.issues.report(
                    NO_PLACE, f"error recovery token lookahead limit exceeded: {_MAX_SKIPPED}"
                )
                raise _GiveUp
            skipped += 1
            self.consume()

    def recover(self, stack: Stack) -> None:
        self.count_recovery()
        index, states = self.last_error
        if index == self.at and id(self.node) in states:
            self.consume()
        self.last_error = (self.at, (states if index == self.at else set()) | {id(self.node)})
        self.skip_to(self.follow(stack))

    # --- walking

    def rule(self, name: str, stack: Stack, binding: int = 0) -> None:
        self.depth += name == "expr"
        if self.depth > _MAX_DEPTH:
            self.issues.report(NO_PLACE, f"expression recursion limit exceeded: {_MAX_DEPTH}")
            raise _GiveUp
        try:
            self.walk(RULES[name], stack, binding)
        except _Mismatch as error:
            self.complain(error.message, error.token)
            self.recover(stack)
        self.depth -= name == "expr"

    def walk(self, element: Element, stack: Stack, binding: int) -> None:
        match element.op:
            case "tok":
                self.match(element, stack)
            case "rule":
                assert element.at.next is not None
                self.node = element.at
                self.rule(element.rule, (*stack, element.at.next), element.binding)
            case "seq":
                for part in element.parts:
                    self.walk(part, stack, binding)
            case "opt":
                self.sync(element.at, stack)
                if self.kind() in next_tokens(element.parts[0].at, None):
                    self.walk(element.parts[0], stack, binding)
            case "alt":
                self.sync(element.at, stack)
                self.walk(element.parts[self.choose(element, stack)], stack, binding)
            case _:
                self.loop(element, stack, binding)

    def loop(self, element: Element, stack: Stack, binding: int) -> None:
        assert element.back is not None
        self.sync(element.at, stack)
        first = element.op == "plus"
        while first or self.goes_on(element, stack, binding):
            first = False
            self.walk(element.parts[0], stack, binding)
            self.sync(element.back, stack)

    def goes_on(self, element: Element, stack: Stack, binding: int) -> bool:
        body = element.parts[0]
        if element.op == "left":
            fits = self.kind() in next_tokens(body.at, None)
            return fits and _LEFT_BINDING.get(self.kind(), 0) >= binding
        if not element.adaptive:
            return self.kind() in next_tokens(body.at, None)
        assert element.back is not None
        return self.predict(element.back.skips, stack) == 0

    def choose(self, element: Element, stack: Stack) -> int:
        starts = [part.at for part in element.parts]
        if element.adaptive:
            return self.predict(starts, stack)
        for index, node in enumerate(starts):
            if self.kind() in next_tokens(node, None):
                return index
        raise self.no_way(0)

    def no_way(self, ahead: int) -> _Mismatch:
        """No alternative fits what was read up to and including that token."""
        pieces = self.tokens[self.at : self.at + ahead + 1]
        read = "".join(t.hidden + (t.text if t.kind != EOF else "") for t in pieces)
        read = read.removeprefix(pieces[0].hidden)
        text = read if pieces[0].kind != EOF else EOF
        shown = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        return _Mismatch(f"no viable alternative at input '{shown}'", pieces[-1])

    # --- deciding by looking ahead

    def predict(self, starts: list[GrammarNode], stack: Stack) -> int:
        """The alternative that the coming tokens belong to."""
        base = len(stack)
        configs = _closure([(i, node, stack, False) for i, node in enumerate(starts)], base)
        for ahead in range(_MAX_LOOKAHEAD):
            kind = self.kind(ahead)
            moved: list[Config] = [
                (alt, node.next, callers, left)
                for alt, node, callers, left in configs
                if kind in node.reads and node.next is not None
            ]
            if not moved:
                finished = [alt for alt, node, _, left in configs if left or node.is_stop]
                if finished:
                    return min(finished)
                raise self.no_way(ahead)
            reached = _closure(moved, base)
            alternatives = {c[0] for c in reached} or {c[0] for c in moved}
            if len(alternatives) == 1 or kind == EOF or _all_conflict(reached):
                return min(alternatives)
            configs = reached
        return min(c[0] for c in configs)


def _closure(configs: list[Config], base: int) -> list[Config]:
    out: list[Config] = []
    seen: set[Config] = set()
    todo = list(reversed(configs))
    while todo:
        config = todo.pop()
        if config in seen:
            continue
        seen.add(config)
        alt, node, callers, left = config
        if node.is_stop:
            if callers:
                outside = left or len(callers) <= base
                todo.append((alt, callers[-1], callers[:-1], outside))
            else:
                out.append(config)
        elif node.calls:
            assert node.next is not None
            todo.append((alt, RULES[node.calls].at, (*callers, node.next), left))
        elif node.reads:
            out.append(config)
        todo += [(alt, n, callers, left) for n in reversed(node.skips)]
    return out


def _all_conflict(configs: list[Config]) -> bool:
    """Whether every place is reached by the same two alternatives: looking on is no use."""
    places: dict[tuple[GrammarNode, Stack], set[int]] = {}
    for alt, node, callers, _ in configs:
        places.setdefault((node, callers), set()).add(alt)
    return all(len(alts) > 1 for alts in places.values())


def _shown(token: Token) -> str:
    text = token.text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f"'{text}'"
