"""Regular expressions: Go's results in linear time, and Go's complaints."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.machinery import regex
from pykcp.machinery.regex import Regex, RegexError, TooMuchWork, compiled

ERRORS = [
    ("(", "missing closing ): `(`"),
    ("a)", "unexpected ): `a)`"),
    ("a**", "invalid nested repetition operator: `**`"),
    ("a+*", "invalid nested repetition operator: `+*`"),
    ("*a", "missing argument to repetition operator: `*`"),
    ("a|*", "missing argument to repetition operator: `*`"),
    ("[z-a]", "invalid character class range: `z-a`"),
    ("[a", "missing closing ]: `[a`"),
    ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
    ("\\", "trailing backslash at end of expression: ``"),
    ("\\y", "invalid escape sequence: `\\y`"),
    ("\\8", "invalid escape sequence: `\\8`"),
    ("\\x{110000}", "invalid escape sequence: `\\x{110000`"),
    ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ("(?<=a)", "invalid named capture: `(?<=a)`"),
    ("(?P<1-2>a)", "invalid named capture: `(?P<1-2>`"),
    ("a{1001}", "invalid repeat count: `{1001}`"),
    ("a{2,1}", "invalid repeat count: `{2,1}`"),
    ("(a{500}){5}", "invalid repeat count: `{5}`"),
    ("\\p{Nope}", "invalid character class range: `\\p{Nope}`"),
    ("\\p", "invalid character class range: `\\p`"),
    ("[\\p", "invalid character class range: `\\p`"),
    ("\\p{nope}", "invalid character class range: `\\p{nope}`"),
    ("a\\C", "invalid escape sequence: `\\C`"),
    ("[\\C]", "invalid escape sequence: `\\C`"),
    ("*\\C", "missing argument to repetition operator: `*`"),
    ("\\x{41", "invalid escape sequence: `\\x{41`"),
    ("a{1001}?", "invalid repeat count: `{1001}`"),
    ("a+{2,1}", "invalid repeat count: `{2,1}`"),
    ("(x{1000}){1000}", "invalid repeat count: `{1000}`"),
    ("\\p{greek})", "unexpected ): `\\p{greek})`"),
    ("(" * 1001 + ")" * 1001, f"expression nests too deeply: `{'(' * 1001 + ')' * 1001}`"),
]


@pytest.mark.parametrize(("pattern", "message"), ERRORS)
def test_complaint(pattern: str, message: str) -> None:
    with pytest.raises(RegexError) as caught:
        Regex(pattern)
    assert str(caught.value) == f"error parsing regexp: {message}"


MATCHES = [
    ("a.c", "abc", True),
    ("a.c", "a\nc", False),
    ("(?s)a.c", "a\nc", True),
    ("^b", "a\nb", False),
    ("(?m)^b$", "a\nb\nc", True),
    ("b$", "b\n", False),
    ("(?i)straße", "STRASSE", False),
    ("(?i)k", "\u212a", True),
    (r"\bfoo\b", "a foo.", True),
    (r"\bfoo\b", "éfoo", True),
    (r"\Bo\b", "foo", True),
    (r"^\w+$", "é", False),
    (r"^\pL+$", "éα", True),
    (r"^\p{Greek}$", "α", True),
    (r"^\P{L}$", "1", True),
    (r"^[^\d\s]$", "x", True),
    (r"^[]a]$", "]", True),
    (r"^[a\-z]+$", "a-z", True),
    (r"^[-a]$", "-", True),
    (r"\Aab\z", "ab", True),
    (r"a{,2}", "a{,2}", True),
    (r"^(?:a|b)*?$", "abab", True),
    (r"^\x41\x{1F600}\101$", "A\U0001f600A", True),
    ("", "anything", True),
    ("(a*)*$", "b", True),
    (r"^\Q\C\E$", "\\C", True),
    (r"^\\C$", "\\C", True),
    (r"^\p{letter}\p{Uppercase_Letter}\pl$", "aBc", True),
    (r"^\p{greek}\P{ascii}[^\p{ASCII}]$", "αβγ", True),
    (r"^[\p{lc}]\P{Cn}\p{assigned}$", "a1-", True),
    (r"^(?:[a[:alpha:]]|[:alpha:]\p{letter})$", "hx", True),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), MATCHES)
def test_match(pattern: str, text: str, expected: bool) -> None:
    found = Regex(pattern)
    assert found.test(text) is expected
    assert (found.find(text) is not None) is expected


FOUND = [
    ("a|ab", "ab", ["a"]),
    ("ab|a", "ab", ["ab"]),
    ("a*", "baac", ["", "aa", ""]),
    ("a*?", "aa", ["", "", ""]),
    ("", "ab", ["", "", ""]),
    ("[a-z]+", "ab 1 cd", ["ab", "cd"]),
    ("(?U)a+", "aaa", ["a", "a", "a"]),
    (r"\b", "ab", ["", ""]),
    ("(a+)+b", "aab ab", ["aab", "ab"]),
    ("", "éα", ["", "", ""]),
    ("[^a]", "éaα", ["é", "α"]),
    (r"\B", "K\u212a", [""]),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), FOUND)
def test_find_all(pattern: str, text: str, expected: list[str]) -> None:
    assert Regex(pattern).find_all(text) == expected


_LONG = "a" * 1_000_000

HOSTILE = [
    ("^(a?){27}a{27}$", False),
    ("(a|a)*b", False),
    ("(.*)(.*)(.*)x", False),
    ("^((a?){30}){30}$", False),
    ("(a+)+$", True),
    ("(a*)*$", True),
    ("(.*)*x", False),
    ("a*a*a*a*a*a*a*c", False),
]


@pytest.mark.parametrize(("pattern", "expected"), HOSTILE)
def test_a_long_text_is_read_once(pattern: str, expected: bool) -> None:
    assert Regex(pattern).test(_LONG) is expected


def test_matches_that_read_to_the_end_each_time_are_given_up() -> None:
    with pytest.raises(TooMuchWork):
        Regex("a(.*b)?").find_all(_LONG)


TOO_LARGE = [r"\pL{999}", r"(?i)([\pL\pN]{30}){30}", "a{999}" * 90]


@pytest.mark.parametrize("pattern", TOO_LARGE)
def test_a_large_program_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError, match=r"^the regular expression needs more than 1 MiB"):
        compiled(pattern)


@pytest.mark.parametrize("pattern", ["a" * 20_001, "|".join([r"\pL"] * 1000)])
def test_a_long_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError, match=r"^the regular expression is longer than 20000"):
        compiled(pattern)


def test_compiled_patterns_have_a_limit_together() -> None:
    kept = compiled("kept")
    for number in range(600):
        assert compiled(f"{number}[a-z]{{50}}").test("x") is False
        assert compiled("kept") is kept
    held = sum(entry.memory for entry in regex._cache.values())
    assert held == regex._cache.size <= regex.CACHE_MEMORY
    assert "0[a-z]{50}" not in regex._cache


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "^", "$", r"\b", "(?:ab)", r"\d"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda p: f"(?:{'|'.join(p)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{1,2}"])).map(
            lambda t: f"(?:{t[0]}){t[1]}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(_PATTERNS, st.text("ab1\n", max_size=8))
def test_plain_patterns_match_as_in_python(pattern: str, text: str) -> None:
    found = Regex(pattern)
    reference = re.compile(pattern.replace("$", r"\Z"), re.ASCII).search(text)
    assert found.test(text) is (reference is not None)
    if not re.search(r"[*+}]", pattern):  # repetitions of nothing count differently in Python
        assert found.find(text) == (reference[0] if reference is not None else None)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20))
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    try:
        found = Regex(pattern)
    except RegexError:
        return
    assert isinstance(found.test("abc"), bool)
