"""The syntax of RE2, as Go accepts it: text to a small tree, with Go's complaints.

Nodes are tuples: ("set", ranges), ("cat", nodes), ("alt", nodes), ("rep", node, least,
most or None, greedy), ("assert", kind). Sets are sorted ranges of code points; flags and
case folding are worked into them, so nothing after this knows about flags.
"""

from __future__ import annotations

from typing import Any

from pykcp.machinery.cel.regex_sets import (
    MAX_RUNE,
    PERL,
    POSIX,
    Ranges,
    fold,
    negate,
    unicode_class,
    union,
)

Tree = tuple[Any, ...]
MAX_REPEAT = 1000
MAX_DEPTH = 1000
_ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class RegexError(Exception):
    """The pattern is refused; the text is Go's."""

    def __init__(self, code: str, piece: str) -> None:
        super().__init__(f"error parsing regexp: {code}: `{piece}`")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.flags = frozenset[str]()

    # --- text

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def end(self) -> bool:
        return self.at >= len(self.text)

    # --- grammar

    def pattern(self) -> Tree:
        tree = self.alternatives()
        if not self.end():
            raise RegexError("unexpected )", self.text)
        return tree

    def alternatives(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise RegexError("expression nests too deeply", self.text)
        branches = [self.sequence()]
        while self.accept("|"):
            branches.append(self.sequence())
        self.depth -= 1
        return branches[0] if len(branches) == 1 else ("alt", tuple(branches))

    def sequence(self) -> Tree:
        items: list[Tree] = []
        while not self.end() and self.text[self.at] not in "|)":
            start = self.at
            if self.text[self.at] in "*+?":
                raise RegexError(
                    "missing argument to repetition operator",
                    self.text[start : self.operator_end()],
                )
            found = self.repeat_braces()
            if found is not None:
                raise RegexError(
                    "missing argument to repetition operator", self.text[start : self.at]
                )
            atom = self.atom()
            if atom is not None:
                items.append(self.repetitions(atom))
        return items[0] if len(items) == 1 else ("cat", tuple(items))

    def operator_end(self) -> int:
        end = self.at + 1
        return end + 1 if self.text[end : end + 1] == "?" else end

    def repetitions(self, atom: Tree) -> Tree:
        last = ""
        while not self.end():
            start = self.at
            bounds = self.bounds()
            if bounds is None:
                return atom
            greedy = not self.accept("?")
            operator = self.text[start : self.at]
            if last:
                raise RegexError("invalid nested repetition operator", last + operator)
            if "U" in self.flags:
                greedy = not greedy
            least, most = bounds
            if (most or least) > MAX_REPEAT or (most is not None and least > most):
                raise RegexError("invalid repeat count", operator)
            if _repeat_size(atom) * max(most or 0, least, 1) > MAX_REPEAT and (
                operator.startswith("{")
            ):
                raise RegexError("invalid repeat count", operator)
            atom = ("rep", atom, least, most, greedy)
            last = operator
        return atom

    def bounds(self) -> tuple[int, int | None] | None:
        if self.accept("*"):
            return 0, None
        if self.accept("+"):
            return 1, None
        if self.accept("?"):
            return 0, 1
        return self.repeat_braces()

    def repeat_braces(self) -> tuple[int, int | None] | None:
        """{n}, {n,} and {n,m}; anything else in braces is plain text."""
        if not self.peek("{"):
            return None
        close = self.text.find("}", self.at)
        inside = self.text[self.at + 1 : close] if close >= 0 else ""
        first, comma, second = inside.partition(",")
        if not _number(first) or (second and not _number(second)):
            return None
        self.at = close + 1
        least = int(first[:5])
        if not comma:
            return least, least
        return least, (int(second[:5]) if second else None)

    def atom(self) -> Tree | None:
        char = self.text[self.at]
        match char:
            case "(":
                return self.group()
            case "[":
                return self.char_class()
            case ".":
                self.at += 1
                return ("set", ((0, MAX_RUNE),) if "s" in self.flags else negate(((10, 10),)))
            case "^":
                self.at += 1
                return ("assert", "bol" if "m" in self.flags else "bot")
            case "$":
                self.at += 1
                return ("assert", "eol" if "m" in self.flags else "eot")
            case "\\":
                return self.escape()
            case _:
                self.at += 1
                return self.char(ord(char))

    def char(self, code: int) -> Tree:
        ranges: Ranges = ((code, code),)
        return ("set", fold(ranges) if "i" in self.flags else ranges)

    def group(self) -> Tree | None:
        start = self.at
        self.at += 1
        saved = self.flags
        if self.accept("?") and self.perl_group(start):
            return None  # (?i) changes the flags of what follows
        tree = self.alternatives()
        if not self.accept(")"):
            raise RegexError("missing closing )", self.text)
        self.flags = saved
        return ("cat", (tree,))

    def perl_group(self, start: int) -> bool:
        """What follows `(?`; True when it was flags only."""
        if self.peek("P<") or self.peek("<"):
            self.named_group(start)
            return False
        flags, minus, some = set(self.flags), False, False
        while not self.end():
            char = self.text[self.at]
            self.at += 1
            if char in "imsU":
                some = True
                (flags.discard if minus else flags.add)(char)
            elif char == "-" and not minus:
                minus, some = True, False
            elif char in ":)" and not (minus and not some):
                self.flags = frozenset(flags)
                return char == ")"
            else:
                break
        else:
            raise RegexError("missing closing )", self.text)
        raise RegexError("invalid or unsupported Perl syntax", self.text[start : self.at])

    def named_group(self, start: int) -> None:
        self.accept("P")
        self.accept("<")
        close = self.text.find(">", self.at)
        if close < 0:
            raise RegexError("invalid named capture", self.text[start:])
        name = self.text[self.at : close]
        if not name or not all(c == "_" or c.isalnum() for c in name):
            raise RegexError("invalid named capture", self.text[start : close + 1])
        self.at = close + 1

    def escape(self) -> Tree:
        start = self.at
        if self.at + 1 >= len(self.text):
            raise RegexError("trailing backslash at end of expression", "")
        char = self.text[self.at + 1]
        simple = {"A": "bot", "z": "eot", "b": "word", "B": "not_word"}
        if char in simple:
            self.at += 2
            return ("assert", simple[char])
        if char == "C":
            raise RegexError("invalid escape sequence", "\\C")
        if char == "Q":
            return self.quoted()
        ranges = self.class_escape()
        if ranges is not None:
            return ("set", ranges)
        self.at = start
        return self.char(self.char_escape())

    def quoted(self) -> Tree:
        self.at += 2
        end = self.text.find("\\E", self.at)
        body = self.text[self.at : end if end >= 0 else len(self.text)]
        self.at = end + 2 if end >= 0 else len(self.text)
        return ("cat", tuple(self.char(ord(c)) for c in body))

    def class_escape(self) -> Ranges | None:
        """\\d, \\pL and their negations."""
        char = self.text[self.at + 1 : self.at + 2]
        if char and char in "dDwWsS":
            self.at += 2
            ranges = PERL[char.lower()]
            if "i" in self.flags and char in "wW":
                ranges = fold(ranges)
            return negate(ranges) if char.isupper() else ranges
        if char and char in "pP":
            return self.unicode_escape(char == "P")
        return None

    def unicode_escape(self, negated: bool) -> Ranges:
        start = self.at
        self.at += 2
        if self.end():
            raise RegexError("invalid character class range", self.text[start:])
        if self.accept("{"):
            close = self.text.find("}", self.at)
            if close < 0:
                raise RegexError("invalid character class range", self.text[start:])
            name = self.text[self.at : close]
            self.at = close + 1
        else:
            name = self.text[self.at]
            self.at += 1
        if name.startswith("^"):
            name, negated = name[1:], not negated
        ranges = unicode_class(name)
        if ranges is None:
            raise RegexError("invalid character class range", self.text[start : self.at])
        if "i" in self.flags:
            ranges = fold(ranges)
        return negate(ranges) if negated else ranges

    def char_escape(self) -> int:
        start = self.at
        self.at += 1
        if self.end():
            raise RegexError("trailing backslash at end of expression", "")
        char = self.text[self.at]
        self.at += 1
        if char in "01234567":
            return self.octal(char, start)
        if char == "x":
            return self.hexadecimal(start)
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in _PUNCTUATION:
            return ord(char)
        raise RegexError("invalid escape sequence", self.text[start : self.at])

    def octal(self, first: str, start: int) -> int:
        following = self.text[self.at : self.at + 1]
        if first != "0" and not (following and following in "01234567"):
            raise RegexError("invalid escape sequence", self.text[start : self.at])
        code = int(first)
        for _ in range(2):
            if self.end() or self.text[self.at] not in "01234567":
                break
            code = code * 8 + int(self.text[self.at])
            self.at += 1
        return code

    def hexadecimal(self, start: int) -> int:
        if self.accept("{"):
            close = self.text.find("}", self.at)
            digits = self.text[self.at : close] if close >= 0 else ""
            end = close + 1
        else:
            digits, end = self.text[self.at : self.at + 2], self.at + 2
            if len(digits) < 2:
                digits = ""
        valid = digits and all(c in "0123456789abcdefABCDEF" for c in digits)
        if not valid or len(digits) > 8 or int(digits, 16) > MAX_RUNE:
            raise RegexError("invalid escape sequence", self.text[start : max(end, self.at + 1)])
        self.at = end
        return int(digits, 16)

    def char_class(self) -> Tree:
        start = self.at
        self.at += 1
        negated = self.accept("^")
        parts: list[Ranges] = []
        first = True
        while first or not self.peek("]"):
            if self.end():
                raise RegexError("missing closing ]", self.text[start:])
            first = False
            parts.append(self.class_item(start))
        self.at += 1
        ranges = union(*parts)
        if "i" in self.flags:
            ranges = fold(ranges)
        return ("set", negate(ranges) if negated else ranges)

    def class_item(self, start: int) -> Ranges:
        if self.peek("[:"):
            close = self.text.find(":]", self.at + 2)
            if close >= 0:
                return self.posix(close)
        if self.peek("\\"):
            ranges = self.class_escape()
            if ranges is not None:
                return ranges
        begin = self.at
        low = self.class_char(start)
        if self.peek("-") and not self.text.startswith("-]", self.at):
            if self.at + 1 >= len(self.text):
                raise RegexError("missing closing ]", self.text[start:])
            self.at += 1
            high = self.class_char(start)
            if high < low:
                raise RegexError("invalid character class range", self.text[begin : self.at])
            return ((low, high),)
        return ((low, low),)

    def posix(self, close: int) -> Ranges:
        name = self.text[self.at + 2 : close]
        piece = self.text[self.at : close + 2]
        negated = name.startswith("^")
        ranges = POSIX.get(name.removeprefix("^"))
        if ranges is None:
            raise RegexError("invalid character class range", piece)
        self.at = close + 2
        return negate(ranges) if negated else ranges

    def class_char(self, start: int) -> int:
        if self.end():
            raise RegexError("missing closing ]", self.text[start:])
        if self.peek("\\"):
            return self.char_escape()
        self.at += 1
        return ord(self.text[self.at - 1])


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and not (len(text) > 1 and text[0] == "0")


def _repeat_size(tree: Tree) -> int:
    """How often the innermost part is repeated by counted repetitions."""
    match tree[0]:
        case "rep":
            count = max(tree[3] or 0, tree[2], 1)
            return int(count * _repeat_size(tree[1]))
        case "cat" | "alt":
            return max((_repeat_size(t) for t in tree[1]), default=1)
        case _:
            return 1


def parse(pattern: str) -> Tree:
    """The tree of a pattern; raises RegexError."""
    return _Parser(pattern).pattern()
