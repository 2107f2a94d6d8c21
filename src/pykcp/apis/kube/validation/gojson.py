"""Why a text is not a JSON object, in the words of Go's decoder.

Secrets with Docker configurations show these words to users.
"""

from __future__ import annotations

_SPACE = b" \t\r\n"
_END = "unexpected end of JSON input"
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_MAX_DEPTH = 10000


class _Bad(Exception):
    """The text breaks JSON's grammar; the message says where."""


def object_error(text: bytes) -> str | None:
    """What Go says when decoding this into a map; None if it is an object (or null)."""
    try:
        _Scanner(text).document()
    except _Bad as error:
        return str(error)
    first = text.lstrip(_SPACE)[:1]
    kinds = {b"[": "array", b'"': "string", b"t": "bool", b"f": "bool"}
    if first in {b"{", b"n"}:
        return None
    kind = kinds.get(first, "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


class _Scanner:
    """A recursive walk that only checks; Go's scanner names the first byte that cannot be."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def document(self) -> None:
        self._value("looking for beginning of value")
        ch = self._next_visible()
        if ch is not None:
            self._fail(ch, "after top-level value")

    def _peek(self) -> int | None:
        return self._text[self._position] if self._position < len(self._text) else None

    def _take(self) -> int:
        ch = self._peek()
        if ch is None:
            raise _Bad(_END)
        self._position += 1
        return ch

    def _take_in_token(self) -> int:
        """Inside a number or a word the end of the text reads as a space."""
        return self._take() if self._peek() is not None else ord(" ")

    def _next_visible(self) -> int | None:
        while (ch := self._peek()) is not None and ch in _SPACE:
            self._position += 1
        return ch

    def _fail(self, ch: int, context: str) -> None:
        raise _Bad(f"invalid character {_quoted(ch)} {context}")

    def _value(self, context: str) -> None:
        ch = self._next_visible()
        if ch is None:
            raise _Bad(_END)
        if ch == ord("{"):
            self._members()
        elif ch == ord("["):
            self._items()
        elif ch == ord('"'):
            self._string()
        elif ch == ord("-") or 0x30 <= ch <= 0x39:
            self._number()
        elif ch in _LITERALS:
            self._literal(_LITERALS[ch])
        else:
            self._fail(ch, context)

    def _nest(self) -> None:
        self._position += 1
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _Bad("exceeded max depth")

    def _members(self) -> None:
        self._nest()
        first = True
        while True:
            ch = self._next_visible()
            if ch is None:
                raise _Bad(_END)
            if ch == ord("}") and first:
                break
            if ch != ord('"'):
                self._fail(ch, "looking for beginning of object key string")
            first = False
            self._string()
            if self._separator("after object key") != ord(":"):
                self._fail(self._text[self._position - 1], "after object key")
            self._value("looking for beginning of value")
            ch = self._separator("after object key:value pair")
            if ch == ord("}"):
                self._depth -= 1
                return
            if ch != ord(","):
                self._fail(ch, "after object key:value pair")
        self._position += 1
        self._depth -= 1

    def _items(self) -> None:
        self._nest()
        if self._next_visible() == ord("]"):
            self._position += 1
            self._depth -= 1
            return
        while True:
            self._value("looking for beginning of value")
            ch = self._separator("after array element")
            if ch == ord("]"):
                self._depth -= 1
                return
            if ch != ord(","):
                self._fail(ch, "after array element")

    def _separator(self, _: str) -> int:
        self._next_visible()
        return self._take()

    def _string(self) -> None:
        self._position += 1
        while True:
            ch = self._take()
            if ch == ord('"'):
                return
            if ch == ord("\\"):
                escape = self._take()
                if escape == ord("u"):
                    for _ in range(4):
                        digit = self._take()
                        if chr(digit) not in "0123456789abcdefABCDEF":
                            self._fail(digit, r"in \u hexadecimal character escape")
                elif chr(escape) not in '"\\/bfnrt':
                    self._fail(escape, "in string escape code")
            elif ch < 0x20:
                self._fail(ch, "in string literal")

    def _number(self) -> None:
        ch = self._take()
        if ch == ord("-"):
            ch = self._take_in_token()
            if not 0x30 <= ch <= 0x39:
                self._fail(ch, "in numeric literal")
        if ch != ord("0"):
            self._digits()
        if self._peek() == ord("."):
            self._position += 1
            ch = self._take_in_token()
            if not 0x30 <= ch <= 0x39:
                self._fail(ch, "after decimal point in numeric literal")
            self._digits()
        if self._peek() in {ord("e"), ord("E")}:
            self._position += 1
            ch = self._take_in_token()
            if chr(ch) in "+-":
                ch = self._take_in_token()
            if not 0x30 <= ch <= 0x39:
                self._fail(ch, "in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while (ch := self._peek()) is not None and 0x30 <= ch <= 0x39:
            self._position += 1

    def _literal(self, word: bytes) -> None:
        for expected in word:
            ch = self._take_in_token()
            if ch != expected:
                where = f"in literal {word.decode()} (expecting {_quoted(expected)})"
                self._fail(ch, where)


def _quoted(ch: int) -> str:
    """A byte as Go quotes it in these errors."""
    if ch == ord("'"):
        return r"'\''"
    if ch == ord('"'):
        return "'\"'"
    from pykcp.machinery.status import go_quote

    return "'" + go_quote(chr(ch))[1:-1] + "'"
