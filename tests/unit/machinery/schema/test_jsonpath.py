from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.schema.jsonpath import PathError, find, parse, text_of

OBJ: dict[str, Any] = {
    "metadata": {"name": "x", "labels": {"region": "eu", "a.b/c": "dotted"}},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Synced", "status": "False", "n": 2.5},
        ],
        "words": ["a", "b", "c", "d"],
        "flag": True,
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["x"]),
        ("$.metadata.name", ["x"]),
        (".metadata.missing.deeper", []),
        (".metadata.labels['region']", ["eu"]),
        (r".metadata.labels.a\.b/c", ["dotted"]),
        (r".metadata.labels['a\.b/c']", ["dotted"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Nope')].status", []),
        (".status.conditions[?(@.n>1)].type", ["Synced"]),
        (".status.conditions[?(@.n>=1)].type", ["Ready", "Synced"]),
        (".status.conditions[?(@.status)].type", ["Ready", "Synced"]),
        (".status.words[0]", ["a"]),
        (".status.words[-1]", ["d"]),
        (".status.words[1:3]", ["b", "c"]),
        (".status.words[::2]", ["a", "c"]),
        (".status.words[*]", ["a", "b", "c", "d"]),
        (".status.words[0,2]", ["a", "c"]),
        (".metadata.labels.*", ["dotted", "eu"]),
        ("..n", [1, 2.5]),
    ],
)
def test_find(path: str, found: list[Any]) -> None:
    assert find(parse(path), OBJ) == found


@pytest.mark.parametrize("path", [".status.words[9]", ".metadata[0]", ".metadata[?(@.a==1)]"])
def test_paths_that_cannot_be_followed(path: str) -> None:
    with pytest.raises(PathError):
        find(parse(path), OBJ)


@pytest.mark.parametrize(
    "path", [".a[", ".a[x]", ".a[?(@.b", ".a['b", "....", "%", ".a[?(@.b=!1)]"]
)
def test_paths_that_cannot_be_read(path: str) -> None:
    with pytest.raises(PathError):
        parse(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("s", "s"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        (3.0, "3"),
        (1e21, "1e+21"),
        (1000000.0, "1e+06"),
        (1.5e-7, "1.5e-07"),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ([1, "a"], '[1,"a"]'),
    ],
)
def test_text(value: Any, text: str) -> None:
    assert text_of(value) == text
