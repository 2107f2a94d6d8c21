"""Workspace types: what they extend, allow, start, end and bind, in tables."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.kcp import workspace_types as types
from pykcp.apis.kcp.workspace_types import BadType, ExportReference, TypeReference
from pykcp.types import Object


def _reference(name: str) -> Object:
    path, _, last = name.rpartition(":")
    return {"path": path, "name": last} if path else {"name": last}


def a_type(name: str, *extends: str, cluster: str = "", **spec: Any) -> Object:
    path, _, last = name.rpartition(":")
    annotations = {"kcp.io/path": path, "kcp.io/cluster": cluster or path}
    if extends:
        spec["extend"] = {"with": [_reference(each) for each in extends]}
    return {"metadata": {"name": last, "annotations": annotations}, "spec": spec}


def parents(*names: str) -> dict[str, Any]:
    return {"limitAllowedParents": {"types": [_reference(n) for n in names]}}


def children(*names: str) -> dict[str, Any]:
    return {"limitAllowedChildren": {"types": [_reference(n) for n in names]}}


def finding(*known: Object) -> types.Find:
    by_name = {types.qualified_name(each): each for each in known}
    return lambda path, name: by_name.get(f"{path}:{name}")


@pytest.mark.parametrize(
    ("path", "wanted", "known", "found"),
    [
        ("foo:org:ws", "universal", ["foo:org:ws:universal", "root:universal"], "foo:org:ws"),
        ("foo:org:ws", "universal", ["foo:org:universal", "root:universal"], "foo:org"),
        ("foo:org:ws", "universal", ["root:universal"], "root"),
        ("root:org:ws", "universal", ["root:universal"], "root"),
        ("root", "universal", ["root:universal"], "root"),
        ("root:org", "root:other:t", ["root:other:t", "root:t"], "root:other"),
    ],
)
def test_a_type_is_found_on_the_way_up(
    path: str, wanted: str, known: list[str], found: str
) -> None:
    reference = types.reference(_reference(wanted))
    assert reference is not None
    got = types.resolve(path, reference, finding(*map(a_type, known)))
    assert types.canonical_path(got) == found


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("nope", 'workspace type "nope" cannot be resolved'),
        (
            "root:bigcorp:nope",
            'Internal error occurred: workspacetypes.tenancy.kcp.io "root:bigcorp:nope" not found',
        ),
    ],
)
def test_a_type_that_is_nowhere_is_said_so(wanted: str, why: str) -> None:
    reference = types.reference(_reference(wanted))
    assert reference is not None
    with pytest.raises(BadType) as refusal:
        types.resolve("root:org", reference, finding(a_type("root:other:nope")))
    assert str(refusal.value) == why


@pytest.mark.parametrize(
    ("of", "known", "expected"),
    [
        (a_type("root:org:t"), [], ["root:org:t"]),
        (
            a_type("root:org:t", "root:a", "root:b"),
            [a_type("root:a"), a_type("root:b")],
            ["root:a", "root:b", "root:org:t"],
        ),
        (
            a_type("root:org:t", "root:a"),
            [a_type("root:a", "root:b"), a_type("root:b")],
            ["root:a", "root:b", "root:org:t"],
        ),
        (  # two ways to the same base
            a_type("root:org:t", "root:a", "root:b"),
            [a_type("root:a", "root:c"), a_type("root:b", "root:c"), a_type("root:c")],
            ["root:a", "root:c", "root:b", "root:org:t"],
        ),
        (  # without a path, from where the type lies upwards
            a_type("root:org:t", "base"),
            [a_type("root:org:base"), a_type("root:base")],
            ["root:org:base", "root:org:t"],
        ),
    ],
)
def test_all_that_a_type_is(of: Object, known: list[Object], expected: list[str]) -> None:
    got = types.transitive(of, finding(*known))
    assert [types.qualified_name(each) for each in got] == expected


@pytest.mark.parametrize(
    ("of", "known", "why"),
    [
        (a_type("root:t", "root:a"), [], "unable to find inherited workspace type a"),
        (
            a_type("root:t", "root:t"),
            [a_type("root:t", "root:t")],
            "circular dependency detected in workspace type root:t: root:t",
        ),
        (
            a_type("root:t", "root:a"),
            [a_type("root:a", "root:b"), a_type("root:b", "root:c"), a_type("root:c", "root:a")],
            "circular dependency detected in workspace type root:a: root:a -> root:b -> root:c",
        ),
    ],
)
def test_bad_extensions(of: Object, known: list[Object], why: str) -> None:
    with pytest.raises(BadType) as refusal:
        types.transitive(of, finding(*known))
    assert str(refusal.value) == why


def test_a_long_chain_of_types_is_refused() -> None:
    known = [a_type(f"root:t{n}", f"root:t{n + 1}") for n in range(5000)]
    why = f"workspace type root:t0 extends more than {types.MOST_TYPES} types"
    with pytest.raises(BadType, match=why):
        types.transitive(known[0], finding(*known))
    last = known[-100:]
    assert len(types.transitive(last[0], finding(*last, a_type("root:t5000")))) == 101


def test_initializers_and_terminators_are_named_by_cluster() -> None:
    known = [
        a_type("root:base", initializer=True, terminator=True),
        a_type("root:org:plain", cluster="abc"),
        a_type("root:org:t", cluster="abc", initializer=True, defaultAPIBindings=[{"export": "x"}]),
    ]
    assert types.initializers(known) == ["root:base", "abc:t", "system:apibindings"]
    assert types.terminators(known) == ["root:base"]
    assert types.initializers(known[1:2]) == []


def test_default_bindings_are_each_said_once() -> None:
    known = [
        a_type("root:u", defaultAPIBindings=[{"path": "root", "export": "tenancy.kcp.io"}]),
        a_type(
            "root:org:t",
            cluster="abc",
            defaultAPIBindings=[{"export": "own"}, {"path": "root", "export": "tenancy.kcp.io"}],
        ),
    ]
    assert types.default_bindings(known) == [
        ExportReference("root", "tenancy.kcp.io"),
        ExportReference("abc", "own"),
    ]


def test_labels_of_a_type_do_not_override() -> None:
    metadata: Object = {"labels": {"mine": "1"}}
    types.add_labels(a_type("root:t", additionalWorkspaceLabels={"mine": "0", "a": "b"}), metadata)
    assert metadata["labels"] == {"mine": "1", "a": "b"}


def test_the_default_child() -> None:
    given = {"name": "universal", "path": "root"}
    assert types.default_child(a_type("root:t", defaultChildWorkspaceType=given)) == TypeReference(
        "root", "universal"
    )
    assert types.default_child(a_type("root:t")) is None


ROOT_A = a_type("root:a")
ALLOWED: list[tuple[list[Object], list[Object], str, str, str]] = [
    ([], [], "root:c", "root:a", ""),
    (
        [],
        [a_type("root:a", **parents("root:b"))],
        "root:c",
        "root:a",
        (
            "workspace type root:a only allows [root:b] parent workspaces, "
            "but parent type root:c only implements []"
        ),
    ),
    (
        [a_type("root:b")],
        [a_type("root:a", limitAllowedParents={"none": True})],
        "root:b",
        "root:a",
        "workspace type root:a cannot have any parent",
    ),
    ([a_type("root:b")], [a_type("root:a", **parents("root:b"))], "root:b", "root:a", ""),
    (
        [ROOT_A],
        [a_type("root:b", **parents("root:d", "root:b")), ROOT_A],
        "root:a",
        "root:a",
        (
            "workspace type root:a extends root:b, which only allows [root:b root:d] parent workspaces,"
            " but parent type root:a only implements [root:a]"
        ),
    ),
    (
        [a_type("root:p", limitAllowedChildren={"none": True})],
        [ROOT_A],
        "root:p",
        "root:a",
        "workspace type root:p cannot have any child",
    ),
    (
        [a_type("root:p", **children("root:x"))],
        [ROOT_A],
        "root:p",
        "root:a",
        (
            "workspace type root:p only allows [root:x] child workspaces, "
            "but child type root:a only implements [root:a]"
        ),
    ),
    (  # an alias is enough
        [a_type("root:p", **children("root:base"))],
        [a_type("root:base"), ROOT_A],
        "root:p",
        "root:a",
        "",
    ),
    (
        [a_type("root:p")],
        [a_type("root:b", **parents("root:x")), a_type("root:a", **parents("root:y"))],
        "root:p",
        "root:a",
        (
            "[workspace type root:a extends root:b, which only allows [root:x] parent workspaces, "
            "but parent type root:p only implements [root:p], "
            "workspace type root:a only allows [root:y] parent workspaces, "
            "but parent type root:p only implements [root:p]]"
        ),
    ),
]


@pytest.mark.parametrize(("above", "below", "parent", "child", "why"), ALLOWED)
def test_what_may_lie_in_what(
    above: list[Object], below: list[Object], parent: str, child: str, why: str
) -> None:
    if not why:
        types.check_allowed(above, below, parent, child)
        return
    with pytest.raises(BadType) as refusal:
        types.check_allowed(above, below, parent, child)
    assert str(refusal.value) == why
