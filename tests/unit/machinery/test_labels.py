"""Label selectors: the grammar, its errors word for word, matching, conditions."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery import labels, terms
from pykcp.machinery.terms import Condition

KEY_ERROR = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_ERROR = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("a=b", "a=b"),
        ("a==b", "a==b"),
        (" a = b , c != d ", "a=b,c!=d"),
        ("b,a", "a,b"),
        ("!a", "!a"),
        ("a in (y,x)", "a in (x,y)"),
        ("a notin (x)", "a notin (x)"),
        ("a in ()", "a in ()"),
        ("a in (,x)", "a in (,x)"),
        ("a in (x,,y)", "a in (,x,y)"),
        ("a in (x,)", "a in (,x)"),
        ("a=", "a="),
        ("a=,b", "a=,b"),
        ("a>1,b<2", "a>1,b<2"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("x=in", "x=in"),
        ("example.com/a=b", "example.com/a=b"),
        ("a\tin\n(x)", "a in (x)"),
        ("a=b\0c", None),
        ("\0garbage", ""),
    ],
)
def test_canonical_text(text: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(labels.SelectorError):
            labels.parse(text)
    else:
        assert str(labels.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("a==!", "unable to parse requirement: found '!', expected: identifier"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": name part {KEY_ERROR}'),
        (
            "a=-b",
            f'unable to parse requirement: values[0][a]: Invalid value: "-b": {VALUE_ERROR}',
        ),
        (
            "a>x",
            (
                'unable to parse requirement: values[0]: Invalid value: "x": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            ),
        ),
        (
            "a in (-x,-y)",
            (
                "unable to parse requirement: "
                f'[values[0][a]: Invalid value: "-x": {VALUE_ERROR}, '
                f'values[1][a]: Invalid value: "-y": {VALUE_ERROR}]'
            ),
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(labels.SelectorError) as raised:
        labels.parse(text)
    assert str(raised.value) == message


MATCHES: list[tuple[str, dict[str, str], bool]] = [
    ("", {}, True),
    ("a=b", {"a": "b"}, True),
    ("a=b", {"a": "c"}, False),
    ("a=b", {}, False),
    ("a!=b", {}, True),
    ("a!=b", {"a": "b"}, False),
    ("a=", {"a": ""}, True),
    ("a=", {}, False),
    ("a", {"a": ""}, True),
    ("a", {"ab": ""}, False),
    ("!a", {"a": ""}, False),
    ("!a", {"ab": "x"}, True),
    ("a in (b,c)", {"a": "c"}, True),
    ("a in (b,c)", {"a": "bc"}, False),
    ("a notin (b,c)", {"a": "c"}, False),
    ("a notin (b,c)", {"a": "d"}, True),
    ("a notin (b,c)", {}, True),
    ("a>1", {"a": "2"}, True),
    ("a>1", {"a": "1"}, False),
    ("a<1", {"a": "0"}, True),
    ("a>1", {}, False),
    ("a>1", {"a": "x"}, False),
    ("a=b,c", {"a": "b", "c": "d"}, True),
    ("a=b,c", {"a": "b"}, False),
]


@pytest.mark.parametrize(("text", "found", "expected"), MATCHES)
def test_match_directly_and_by_conditions(text: str, found: dict[str, str], expected: bool) -> None:
    selector = labels.parse(text)
    assert selector.matches(found) is expected
    assert by_conditions(selector, found) is expected


def by_conditions(selector: labels.LabelSelector, found: dict[str, str]) -> bool:
    conditions, residual = labels.to_conditions(selector)
    text = labels.label_terms(found, {"metadata.name": "x"})
    return holds(conditions, text) and (residual is None or residual(text))


def holds(conditions: Sequence[Condition], text: str) -> bool:
    return all(any(part in text for part in c.any_of) is not c.negated for c in conditions)


KEYS = st.sampled_from(["a", "b", "ab", "l", "example.com/a"])
VALUES = st.sampled_from(["", "1", "2", "10", "b", "a"])
REQUIREMENTS = st.one_of(
    st.builds("{}={}".format, KEYS, VALUES),
    st.builds("{}!={}".format, KEYS, VALUES),
    st.builds("{} in ({},{})".format, KEYS, VALUES, VALUES),
    st.builds("{} notin ({},{})".format, KEYS, VALUES, VALUES),
    st.builds("{}>{}".format, KEYS, st.sampled_from(["1", "5"])),
    st.builds("{}<{}".format, KEYS, st.sampled_from(["1", "5"])),
    KEYS,
    st.builds("!{}".format, KEYS),
)


@given(st.lists(REQUIREMENTS, max_size=4), st.dictionaries(KEYS, VALUES))
def test_conditions_say_what_the_selector_says(
    requirements: list[str], found: dict[str, str]
) -> None:
    selector = labels.parse(",".join(requirements))
    assert by_conditions(selector, found) == selector.matches(found)
    assert labels.parse(str(selector)) == selector


@given(st.text(max_size=40))
def test_any_text_parses_or_says_why(text: str) -> None:
    try:
        selector = labels.parse(text)
    except labels.SelectorError:
        return
    assert labels.parse(str(selector)) == selector


def test_label_selector_objects() -> None:
    selector = labels.from_label_selector(
        {
            "matchLabels": {"b": "c"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]},
                {"key": "z", "operator": "DoesNotExist"},
            ],
        }
    )
    assert str(selector) == "a in (x,y),b=c,!z"
    assert selector.matches({"a": "x", "b": "c"})
    assert labels.from_label_selector({}).empty
    assert not labels.from_label_selector(None).matches({})
    assert not by_conditions(labels.from_label_selector(None), {"a": "b"})
    with pytest.raises(labels.SelectorError, match=r'^"Nope" is not a valid label selector op'):
        labels.from_label_selector({"matchExpressions": [{"key": "a", "operator": "Nope"}]})
    with pytest.raises(labels.SelectorError, match="values set can't be empty"):
        labels.from_label_selector({"matchExpressions": [{"key": "a", "operator": "In"}]})


def test_terms_text() -> None:
    assert labels.label_terms({}, {}) == ""
    assert labels.label_terms(None, {"type": ""}) == ""
    text = labels.label_terms({"a": "b", "c": ""}, {"type": "Opaque"})
    assert text == "\x1fl:a=b\x1fl:c=\x1ff:type=Opaque\x1f"
    assert terms.label_value(text, "a") == "b"
    assert not terms.label_value(text, "c")
    assert terms.label_value(text, "d") is None


def test_field_values_cannot_forge_terms() -> None:
    text = labels.label_terms({}, {"reason": "x\x1fl:admin=true\x1f"})
    assert not holds(labels.to_conditions(labels.parse("admin"))[0], text)


# --- large selectors --------------------------------------------------------------


KEYS, VALUES = st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "1", "2", "10", "x"])
REQUIREMENTS = st.lists(
    st.one_of(
        st.builds(labels.LabelRequirement, KEYS, st.sampled_from(["exists", "!"])),
        st.builds(
            labels.LabelRequirement,
            KEYS,
            st.sampled_from(["=", "==", "!="]),
            VALUES.map(lambda v: (v,)),
        ),
        st.builds(
            labels.LabelRequirement,
            KEYS,
            st.sampled_from(["in", "notin"]),
            st.lists(VALUES, min_size=1, max_size=3).map(tuple),
        ),
        st.builds(
            labels.LabelRequirement,
            KEYS,
            st.sampled_from(["gt", "lt"]),
            st.sampled_from(["1", "2", "10"]).map(lambda v: (v,)),
        ),
    ),
    max_size=5,
)


@given(REQUIREMENTS, st.dictionaries(KEYS, VALUES))
def test_tests_by_label_say_what_the_requirements_say(
    requirements: list[labels.LabelRequirement], found: dict[str, str]
) -> None:
    tests = labels.LabelTests()
    for requirement in requirements:
        tests.add(requirement)
    expected = all(requirement.matches(found) for requirement in requirements)
    assert tests.hold(found) == expected
    assert tests.hold(terms.labels_of(labels.label_terms(found, {"f": "x"}))) == expected


@pytest.mark.parametrize(
    "text",
    [
        ",".join(f"k{number}=v" for number in range(15_000)),
        ",".join(f"!k{number}" for number in range(60_000)),
        ",".join(f"a!=v{number}" for number in range(60_000)),
        f"a in ({','.join(f'v{number}' for number in range(150_000))})",
        f"a notin ({','.join(f'v{number}' for number in range(150_000))})",
        ",".join(f"a>{number}" for number in range(60_000)),
    ],
)
def test_a_test_of_tens_of_thousands_of_terms_is_a_look_at_the_labels(text: str) -> None:
    """One after the other they would take hours."""
    selector = labels.parse(text)
    conditions, residual = labels.to_conditions(selector)
    assert sum(len(condition.any_of) for condition in conditions) < 1000
    assert residual is not None
    for number in range(5_000):
        found = {"a": str(number), "b": "x"}
        is_meant = text.startswith(("!", "a!=", "a notin"))
        assert selector.matches(found) is is_meant
        assert residual(labels.label_terms(found)) is is_meant
    assert sum(1 for _ in labels.parse_in_steps(text)) > 10_000


def test_bad_values_are_named_up_to_a_limit() -> None:
    values = [f"-{number}" for number in range(100_000)]
    with pytest.raises(labels.SelectorError) as raised:
        labels.new_requirement("a", "in", values)
    assert len(str(raised.value)) < 500_000
