"""Regular expressions from users: Go's syntax, results and messages, in bounded time and memory.

RE2 runs them: a match takes time in proportion to the text times the size of the compiled
pattern, whatever the pattern. Its C++ implementation differs from Go's in a few points of
syntax and in the wording of its errors; both are translated here.

Compiled patterns live in one cache with a limit on their memory. Hold the text of a
pattern, not the `Regex`, where it would outlive a request.
"""

from __future__ import annotations

import re
import time
from functools import cache
from typing import Any

from pykcp.caching import BoundedCache

MAX_MEMORY = 1 << 20
"""Bytes that one compiled pattern may need."""
CACHE_MEMORY = 48 << 20
"""Bytes that all compiled patterns may need together."""
MAX_DEPTH = 1000
"""Groups within groups; Go's limit."""
MAX_LENGTH = 20_000
"""Characters of a pattern, where one with a Unicode class counts for a hundred more."""
_UNICODE_CLASS = 100
_TOO_LARGE_EFFORT = 100_000
_MAX_REFUSED = 256
_TOO_LONG = f"the regular expression is longer than {MAX_LENGTH} characters"
_FIND_ALL_SECONDS = 0.25
_BASE_MEMORY = 64 << 10
_MEMORY_PER_INSTRUCTION = 2400
"""Room for about a hundred states of the automaton in each direction."""


class RegexError(Exception):
    """The pattern is refused."""


class RegexTooLarge(RegexError):
    """The pattern is refused because its program would be too large."""


class TooMuchWork(Exception):
    """Finding every match of this pattern in this text takes too long."""


class Regex:
    """A compiled pattern. `size` is the number of its instructions."""

    __slots__ = ("_match", "_unanchored", "memory", "pattern", "size")

    def __init__(self, pattern: str) -> None:
        library = _library()
        found, text = _compile(library, pattern)
        self.pattern = pattern
        self.size: int = found.ProgramSize()
        self.memory: int = min(_BASE_MEMORY + _MEMORY_PER_INSTRUCTION * self.size, MAX_MEMORY)
        if self.memory < MAX_MEMORY:
            found = library.RE2(_encoded(text), _options(self.memory))
        self._match = found.Match
        self._unanchored = library.RE2.Anchor.UNANCHORED

    def work(self, text: str) -> int:
        """Steps that a match takes at worst; a step takes a few nanoseconds."""
        return len(text) * self.size

    def test(self, text: str) -> bool:
        """Whether it matches anywhere."""
        data = _encoded(text)
        return bool(self._match(self._unanchored, data, 0, len(data))[0][0] >= 0)

    def find(self, text: str) -> str | None:
        """The leftmost match, and of those the preferred one."""
        data = _encoded(text)
        begin, end = self._match(self._unanchored, data, 0, len(data))[0]
        return data[begin:end].decode() if begin >= 0 else None

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Every match in order, none within another.

        Each search may read to the end of the text, so that many matches can take time in
        proportion to the square of its length; raises TooMuchWork when they do.
        """
        data = _encoded(text)
        out: list[str] = []
        at, previous = 0, -1
        deadline = time.thread_time() + _FIND_ALL_SECONDS
        between_looks = max(1, 1_000_000 // (len(data) * self.size + 1))
        while at <= len(data) and (limit < 0 or len(out) < limit):
            begin, end = self._match(self._unanchored, data, at, len(data))[0]
            if begin < 0:
                break
            if (begin != end or begin != previous) and _is_start(data, begin):
                out.append(data[begin:end].decode())
            at = end if end > at else _after_character(data, at)
            previous = end
            if len(out) % between_looks == 0 and time.thread_time() > deadline:
                raise TooMuchWork
        return out


def _is_start(data: bytes, at: int) -> bool:
    """Whether a character starts here: RE2 finds empty matches within characters too."""
    return at >= len(data) or data[at] & 0xC0 != 0x80


def _after_character(data: bytes, at: int) -> int:
    at += 1
    while not _is_start(data, at):
        at += 1
    return at


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


# --- the cache

_cache: BoundedCache[str, Regex] = BoundedCache(
    "regular-expressions", CACHE_MEMORY, cost=lambda regex: regex.memory
)
_refused: BoundedCache[str, RegexError] = BoundedCache("invalid-regular-expressions", _MAX_REFUSED)


def compiled(pattern: str) -> Regex:
    """The pattern, compiled; raises RegexError."""
    found = _cache.get(pattern)
    if found is not None:
        return found
    if length(pattern) > MAX_LENGTH:
        raise RegexError(_TOO_LONG)
    refused = _refused.get(pattern)
    if refused is not None:
        raise refused
    try:
        return _cache.put(pattern, Regex(pattern))
    except RegexError as error:
        _refused.put(pattern, error.with_traceback(None))
        raise


def is_known(pattern: str) -> bool:
    """Whether it need not be compiled first."""
    return pattern in _cache


def verdict(pattern: str) -> tuple[int, str]:
    """What it takes to compile a pattern, by its length and its program; why it is refused."""
    try:
        return length(pattern) + compiled(pattern).size, ""
    except RegexTooLarge as error:
        return _TOO_LARGE_EFFORT, str(error)
    except RegexError as error:
        return min(length(pattern), MAX_LENGTH), str(error)


def length(pattern: str) -> int:
    """The length of a pattern, where what takes long to compile counts for more."""
    return len(pattern) + _UNICODE_CLASS * (pattern.count("\\p") + pattern.count("\\P"))


# --- Go's syntax

_CODES = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""Errors that Go calls by another name."""
_BRACES = re.compile(r"(\{([0-9]{1,9})(?:,([0-9]{0,9}))?\})\??\Z")
_TOO_LARGE = "pattern too large"


@cache
def _library() -> Any:
    """Loaded when the first pattern is met: most servers start without one.

    The part of google-re2 below its Python layer, which takes five times as long to match
    a short text.
    """
    from re2 import _re2

    return _re2


@cache
def _options(memory: int) -> Any:
    options = _library().RE2.Options()
    options.max_mem = memory
    options.log_errors = False
    options.never_capture = True
    return options


def _compile(library: Any, pattern: str) -> tuple[Any, str]:
    """The compiled pattern, and how RE2 was given it."""
    text = pattern
    _refuse_bytes(library, text)
    found = library.RE2(_encoded(text), _options(MAX_MEMORY))
    if not found.ok() and b"invalid character class range: \\" in found.error():
        text = _plain_classes(pattern)
        found = library.RE2(_encoded(text), _options(MAX_MEMORY))
    if not found.ok():
        raise _error(pattern, found.error().decode())
    if pattern.count("(") >= MAX_DEPTH and _depth(pattern) >= MAX_DEPTH:
        raise _go_error("expression nests too deeply", pattern)
    return found, text


def _go_error(code: str, piece: str) -> RegexError:
    return RegexError(f"error parsing regexp: {code}: `{piece}`")


def _error(pattern: str, text: str) -> RegexError:
    """What RE2 says, in Go's words."""
    if text.startswith(_TOO_LARGE):
        limit = MAX_MEMORY >> 20
        return RegexTooLarge(f"the regular expression needs more than {limit} MiB when compiled")
    code, _, piece = text.partition(": ")
    if code in {"missing )", "unexpected )"}:
        return _go_error(_CODES.get(code, code), pattern)
    braces = _BRACES.search(piece)
    if braces and code in {"invalid repetition size", "bad repetition operator"}:
        least, most = int(braces[2]), int(braces[3] or braces[2])
        if max(least, most) > 1000 or least > most:
            return _go_error("invalid repeat count", braces[1])
    elif code == "invalid UTF-8":  # it is text; RE2 means a character's number that has no end
        return _go_error("invalid escape sequence", pattern[max(pattern.rfind("\\x"), 0) :])
    elif piece in {"(?<=", "(?<!"}:  # Go takes what follows for a name
        rest = pattern[pattern.find(piece) :]
        return _go_error("invalid named capture", rest[: rest.find(">") + 1] or rest)
    elif code == "invalid escape sequence" and piece in {"\\p", "\\P"}:
        code = "invalid character class range"
    return _go_error(_CODES.get(code, code), piece)


_PIECE = re.compile(
    r"\\Q(?:[^\\]|\\(?!E))*(?:\\E)?|\\[pP](?:\{[^}]*\}|[^{])|\\.|\[:\^?[a-z]*:\]|\[\^?\]?|[\](]",
    re.DOTALL,
)


def _refuse_bytes(library: Any, pattern: str) -> None:
    r"""Go does not know `\C`, a single byte."""
    if "\\C" not in pattern:
        return
    for piece in _PIECE.finditer(pattern):
        if piece[0] == "\\C":
            before = library.RE2(_encoded(pattern[: piece.start()]), _options(MAX_MEMORY))
            if not before.ok() and not before.error().startswith(b"missing "):
                raise _error(pattern, before.error().decode())
            raise _go_error("invalid escape sequence", "\\C")


def _depth(pattern: str) -> int:
    """How deep its groups nest."""
    depth = deepest = 0
    inside = False
    for piece in re.finditer(rf"{_PIECE.pattern}|\)", pattern, re.DOTALL):
        text = piece[0]
        if inside:
            inside = text != "]"
        elif text.startswith("["):
            inside = not text.endswith(":]")
        elif text == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif text == ")":
            depth -= 1
    return deepest


# --- names of Unicode's classes, which Go takes in any case and by their long names too

_CATEGORIES = {
    "other": "C", "control": "Cc", "cntrl": "Cc", "format": "Cf", "privateuse": "Co",
    "surrogate": "Cs", "letter": "L", "lowercaseletter": "Ll", "modifierletter": "Lm",
    "otherletter": "Lo", "titlecaseletter": "Lt", "uppercaseletter": "Lu", "mark": "M",
    "combiningmark": "M", "spacingmark": "Mc", "enclosingmark": "Me", "nonspacingmark": "Mn",
    "number": "N", "decimalnumber": "Nd", "digit": "Nd", "letternumber": "Nl",
    "othernumber": "No", "punctuation": "P", "punct": "P", "connectorpunctuation": "Pc",
    "dashpunctuation": "Pd", "closepunctuation": "Pe", "finalpunctuation": "Pf",
    "initialpunctuation": "Pi", "otherpunctuation": "Po", "openpunctuation": "Ps",
    "symbol": "S", "currencysymbol": "Sc", "modifiersymbol": "Sk", "mathsymbol": "Sm",
    "othersymbol": "So", "separator": "Z", "lineseparator": "Zl", "paragraphseparator": "Zp",
    "spaceseparator": "Zs", "any": "Any",
}  # fmt: skip
_CASED = r"\p{Lu}\p{Ll}\p{Lt}"
_SETS = {"ascii": "[:ascii:]", "lc": _CASED, "casedletter": _CASED,
         "assigned": r"\pL\pM\pN\pP\pS\pZ\pC"}  # fmt: skip
_NEGATED_SETS = {"cn": "assigned", "unassigned": "assigned"}


def _plain_classes(pattern: str) -> str:
    """The pattern with the names of classes as RE2 knows them."""
    inside = False

    def plain(piece: re.Match[str]) -> str:
        nonlocal inside
        text = piece[0]
        if text.startswith(("\\p", "\\P")):
            return _plain_class(text, inside)
        if inside:
            inside = text != "]"
        elif text.startswith("["):
            inside = not text.endswith(":]")
        return text

    return _PIECE.sub(plain, pattern)


def _plain_class(text: str, inside: bool) -> str:
    name = text[2:].strip("{}")
    negative = (text[1] == "P") != name.startswith("^")
    key = re.sub("[ _-]+", "", name.removeprefix("^")).lower()
    if key in _NEGATED_SETS:
        key, negative = _NEGATED_SETS[key], not negative
    members = _SETS.get(key)
    if members is None:
        plain = f"\\{'P' if negative else 'p'}{{{_CATEGORIES.get(key) or key.capitalize()}}}"
        return plain if _library().RE2(plain.encode(), _options(MAX_MEMORY)).ok() else text
    if not inside:
        return f"[{'^' if negative else ''}{members}]"
    if negative:
        return "[:^ascii:]" if key == "ascii" else text
    return members
