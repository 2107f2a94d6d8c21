"""Regular expressions: RE2's results in linear time, and Go's complaints."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.machinery.cel.regex import Regex, RegexError, compiled

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
    ("\\x{110000}", "invalid escape sequence: `\\x{110000}`"),
    ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ("(?<=a)", "invalid named capture: `(?<=a)`"),
    ("(?P<1-2>a)", "invalid named capture: `(?P<1-2>`"),
    ("a{1001}", "invalid repeat count: `{1001}`"),
    ("a{2,1}", "invalid repeat count: `{2,1}`"),
    ("(a{500}){5}", "invalid repeat count: `{5}`"),
    ("\\p{Nope}", "invalid character class range: `\\p{Nope}`"),
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
]


@pytest.mark.parametrize(("pattern", "text", "expected"), MATCHES)
def test_match(pattern: str, text: str, expected: bool) -> None:
    regex = Regex(pattern)
    assert regex.search(text) is expected
    assert regex._dfa.search(text) is expected
    assert (regex._program.find(text, 0) is not None) is expected


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
]


@pytest.mark.parametrize(("pattern", "text", "expected"), FOUND)
def test_find_all(pattern: str, text: str, expected: list[str]) -> None:
    assert Regex(pattern).find_all(text) == expected


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a*)*$", "(.*)*x", "a*a*a*a*a*a*a*c"])
def test_no_pattern_runs_away(pattern: str) -> None:
    text = "a" * 3000 + "!"
    started = time.process_time()
    empty_at_the_end = pattern in ("(a|a)*$", "(a*)*$")
    assert Regex(pattern).search(text) is empty_at_the_end
    assert time.process_time() - started < 2


def test_long_texts_take_the_automaton() -> None:
    regex = compiled("a.*b.*c")
    assert regex.search("a" * 50_000) is False
    assert regex.search("a" * 50_000 + "bc") is True


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
def test_all_engines_agree(pattern: str, text: str) -> None:
    regex = Regex(pattern)
    reference = re.compile(pattern.replace("$", r"\Z"), re.ASCII).search(text)
    assert regex._dfa.search(text) is (reference is not None)
    assert regex.search(text) is (reference is not None)
    span = regex._program.find(text, 0)
    assert (span is None) is (reference is None)
    if reference is not None and span is not None and "*?" not in pattern and "?" not in pattern:
        assert span[0] == reference.start()


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20))
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    try:
        regex = Regex(pattern)
    except RegexError:
        return
    assert isinstance(regex.search("abc"), bool)
