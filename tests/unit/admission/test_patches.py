"""Patches that do not apply are told in the words of the Go library."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.admission.expressions.environment import NameVisibility, base_environment
from pykcp.admission.expressions.patch_types import misnamed_types
from pykcp.admission.patches import PatchFailed, apply_patch
from pykcp.admission.policies.mutating import MutationFailed, to_json
from pykcp.machinery.cel.runtime.values import BoolKey, Duration, Timestamp, UInt

DOCUMENT = {"a": {"b": 1}, "l": [1, 2]}

FAILURES = {
    "kind": ({"op": "zap", "path": "/a"}, "Unexpected kind: zap"),
    "no path": (
        {"op": "add", "value": 1},
        "add operation failed to decode path: operation missing path field: missing value",
    ),
    "add": ({"op": "add", "path": "/x/y"}, 'add operation does not apply: doc is missing path: "/x/y": missing value'),
    "add index": (
        {"op": "add", "path": "/l/9", "value": 1},
        "error in add for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
    ),
    "add name": (
        {"op": "add", "path": "/l/x", "value": 1},
        ("error in add for path: '/l/x': value was not a proper array index: 'x': "
        'strconv.Atoi: parsing "x": invalid syntax'),
    ),
    "remove": (
        {"op": "remove", "path": "/a/z"},
        "error in remove for path: '/a/z': Unable to remove nonexistent key: z: missing value",
    ),
    "replace": (
        {"op": "replace", "path": "/x/y", "value": 1},
        "replace operation does not apply: doc is missing path: /x/y: missing value",
    ),
    "replace index": (
        {"op": "replace", "path": "/l/9", "value": 1},
        "replace operation does not apply: doc is missing key: /l/9: missing value",
    ),
    "test": ({"op": "test", "path": "/a/b", "value": 2}, "testing value /a/b failed: test failed"),
    "test nowhere": (
        {"op": "test", "path": "/x/y", "value": 2},
        "test operation does not apply: is missing path: /x/y: missing value",
    ),
    "move": (
        {"op": "move", "from": "/x/y", "path": "/z"},
        "move operation does not apply: doc is missing from path: /x/y: missing value",
    ),
    "copy": (
        {"op": "copy", "from": "/a/b", "path": "/x/y"},
        "copy operation does not apply: doc is missing destination path: /x/y: missing value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_failures(case: str) -> None:
    operation, why = FAILURES[case]
    with pytest.raises(PatchFailed) as caught:
        apply_patch(DOCUMENT, [operation])
    assert str(caught.value) == why
    assert caught.value.is_test == (case == "test")
    assert DOCUMENT == {"a": {"b": 1}, "l": [1, 2]}


def test_operations_build_on_each_other() -> None:
    operations = [
        {"op": "add", "path": "/n", "value": {}},
        {"op": "copy", "from": "/a/b", "path": "/n/c"},
        {"op": "remove", "path": "/a"},
    ]
    assert apply_patch(DOCUMENT, operations) == {"l": [1, 2], "n": {"c": 1}}


NAMES = {
    "sound": ("Object{spec: Object.spec{a: Object.spec.a{}}}", ""),
    "in lists": ("Object{spec: Object.spec{l: [Object.spec.l{}]}}", ""),
    "wrong": ("Object{spec: Object.x{}}", 'unexpected type name "Object.x", expected "Object.spec"'),
    "in a condition": ("Object{spec: true ? Object.y{} : Object.spec{}}", '"Object.y", expected "Object.spec"'),
    "a patch's value": ('[JSONPatch{op: "add", path: "/x", value: Object.spec{}}]', ""),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMES)
def test_names_of_types_say_where_they_stand(case: str) -> None:
    expression, why = NAMES[case]
    found = misnamed_types(expression, base_environment(NameVisibility(patch_types=True)))
    assert (why in found) if why else found == ""


def test_values_become_json() -> None:
    value: dict[str, Any] = {"u": UInt(3), "b": b"x", "l": [1, None], "t": Timestamp(0)}
    assert to_json(value) == {"u": 3, "b": "eA==", "l": [1, None], "t": "1970-01-01T00:00:00Z"}
    assert to_json(Duration(1_500_000_000)) == "1.5s"
    with pytest.raises(MutationFailed, match="is of type bool, not string"):
        to_json({BoolKey(True): 1})
