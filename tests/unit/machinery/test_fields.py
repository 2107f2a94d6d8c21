"""Field selectors: parsing, refusals word for word, matching, conditions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery import fields, terms
from pykcp.machinery.labels import SelectorError, label_terms
from pykcp.steps import at_once


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        ("b=1,a!=2", "a!=2,b=1"),
        ("a=,,", "a="),
        (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
        ("a!==b", None),
        ("a=!b", "a=!b"),
        ("=x", "=x"),
        ("=", ""),
        ("!=,a=b", "a=b"),
    ],
)
def test_canonical_text(text: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(SelectorError):
            fields.parse(text)
    else:
        assert str(fields.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        fields.parse(text)
    assert str(raised.value) == message


def test_unknown_fields_are_refused_in_two_ways() -> None:
    selector = fields.parse("status.phase=x,metadata.name=y")
    at_once(fields.check(selector, ("metadata.name", "status.phase")))
    with pytest.raises(SelectorError, match=r"^field label not supported: status\.phase$"):
        at_once(fields.check(selector, ("metadata.name",)))
    with pytest.raises(SelectorError) as raised:
        at_once(fields.check(selector, None))
    assert str(raised.value) == (
        '"status.phase" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def test_what_is_decided_elsewhere() -> None:
    selector = fields.parse("metadata.name=x,type!=y")
    assert selector.exact("metadata.name") == "x"
    assert selector.exact("type") is None


VALUES = st.sampled_from(["", "a", "b", "a,b", "x=y", "\x1ff:q=a\x1f", "\x1e", "\x1es"])
PATHS = st.sampled_from(["p", "q", "metadata.name"])


@given(
    st.lists(st.tuples(PATHS, st.sampled_from(["=", "!="]), VALUES), max_size=3),
    st.dictionaries(PATHS, VALUES),
)
def test_conditions_say_what_the_selector_says(
    parts: list[tuple[str, str, str]], found: dict[str, str]
) -> None:
    selector = fields.parse(",".join(p + o + fields.escape(v) for p, o, v in parts))
    conditions, residual = fields.to_conditions(selector)
    text = label_terms({"l": "x"}, found)
    outcome = all(any(t in text for t in c.any_of) is not c.negated for c in conditions)
    assert residual is None
    assert outcome == selector.matches(found)
    assert fields.parse(str(selector)) == selector
    tests = fields.FieldTests()
    for requirement in selector.requirements:
        tests.add(requirement)
    assert tests.hold(found) == outcome
    assert tests.hold(terms.fields_of(text)) == outcome
    wanted = {r.path for r in selector.requirements if not r.negated}
    assert all(tests.wanted[path] == selector.exact(path) for path in wanted)


@given(st.text(alphabet="a=,\\", max_size=30))
def test_terms_are_split_at_commas_without_a_backslash(text: str) -> None:
    parts, escaped = [""], False
    for character in text:
        if character == "," and not escaped:
            parts.append("")
        else:
            parts[-1] += character
        escaped = character == "\\" and not escaped
    assert at_once(fields._split_terms(text)) == parts


def test_a_selector_of_tens_of_thousands_of_terms() -> None:
    """Its tests take the time of a look at the object."""
    text = ",".join(f"metadata.name!=x{number}" for number in range(60_000))
    selector = fields.parse(f"{text},type=a")
    assert selector.exact("type") == "a"
    conditions, residual = fields.to_conditions(selector)
    assert len(conditions) < 100
    assert residual is not None
    for number in range(5_000):
        assert selector.matches({"metadata.name": f"y{number}", "type": "a"})
        assert residual(label_terms({}, {"metadata.name": f"y{number}", "type": "a"}))
        assert not selector.matches({"metadata.name": f"x{number}", "type": "a"})


def test_a_long_selector_that_is_wrong() -> None:
    with pytest.raises(SelectorError, match="can't understand 'b'") as raised:
        fields.parse("a=b," * 100_000 + "b")
    assert len(str(raised.value)) < 20_000


@given(st.text(max_size=30))
def test_escape_and_back(value: str) -> None:
    assert fields.unescape(fields.escape(value)) == value
