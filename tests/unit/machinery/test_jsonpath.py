"""Templates: text, actions, ranges; the paths inside are tested with the schemas."""

import pytest

from pykcp.machinery import jsonpath

DATA = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"x": "1"}}, "ports": [80, 443]},
        {"metadata": {"name": "b"}, "ports": []},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "List"),
        ("kind={.kind}!", "kind=List!"),
        ("plain", "plain"),
        ("{.items[*].metadata.name}", "a b"),
        ('{range .items[*]}{.metadata.name}{"\\n"}{end}', "a\nb\n"),
        ("{range .items[*]}[{range .ports[*]}({@}){end}]{end}.", "[(80)(443)][]."),
        ("{range .items[*]}{.metadata.name}", "ab"),
        ("{.items[0].metadata.labels}", '{"x":"1"}'),
        ("{.nothing}", ""),
        ('{.items[?(@.metadata.name=="b")].metadata.name}', "b"),
        ('{"}"}', "}"),
    ],
)
def test_render(template: str, text: str) -> None:
    assert jsonpath.parse(template).render(DATA) == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.a", "unclosed action"),
        ("{end}", "not in range, nothing to end"),
        ("{.a[}", "unterminated array"),
        ("{nope}", "unrecognized identifier nope"),
    ],
)
def test_errors(template: str, message: str) -> None:
    with pytest.raises(jsonpath.JSONPathError) as raised:
        jsonpath.parse(template)
    assert str(raised.value) == message


def test_first() -> None:
    assert jsonpath.parse("{.items[1].metadata.name}").first(DATA) == "b"
    assert jsonpath.parse("{.items[7]}").first(DATA) is None
    assert jsonpath.parse("{.nothing}").first(DATA) is None
    with pytest.raises(jsonpath.JSONPathError, match="out of bounds"):
        jsonpath.parse("{.items[7]}").find(DATA)
