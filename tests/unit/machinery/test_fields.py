"""Field selectors: parsing, refusals word for word, matching, conditions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery import fields
from pykcp.machinery.labels import SelectorError, label_terms


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
    assert fields.check(selector, ("metadata.name", "status.phase")) is selector
    with pytest.raises(SelectorError, match=r"^field label not supported: status\.phase$"):
        fields.check(selector, ("metadata.name",))
    with pytest.raises(SelectorError) as raised:
        fields.check(selector, None)
    assert str(raised.value) == (
        '"status.phase" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def test_what_is_decided_elsewhere() -> None:
    selector = fields.parse("metadata.name=x,type!=y")
    assert selector.exact("metadata.name") == "x"
    assert selector.exact("type") is None
    assert str(selector.without("metadata.name")) == "type!=y"


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


@given(st.text(max_size=30))
def test_escape_and_back(value: str) -> None:
    assert fields.unescape(fields.escape(value)) == value
