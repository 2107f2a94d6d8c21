from __future__ import annotations

import pytest

from pykcp.machinery.schema.kinds import KindsError, parse
from pykcp.machinery.schema.library import Library

META = """
package io.meta.v1 go=v1
opaque Time string format=date-time codec=time | A moment.
opaque RawExtension object codec=raw | Anything.
struct ObjectMeta | Metadata.
  name  string | The name.
struct ListMeta | List metadata.
"""

TREES = """
# a comment
package io.example.v1 go=v1
use meta kube/meta_v1
named Colour string
enum Size: small, very large
named Sizes {Colour:Size}

kind Tree list | A tree.
  metadata  meta.ObjectMeta
  spec      TreeSpec!        | What it is to be.
  planted   time?            | When.

struct TreeSpec atomic | The spec.
  colour    Colour!  optional | Of the leaves.
  sizes     Sizes             | By colour.
  branches  [Tree]   map=name,kind patch=merge:name | Smaller trees.
  height    int32!   min=1    | In metres.
    rule: self > 0
    says: must grow
  include Shared

struct Shared | Included.
  note  string? default="x" | A note.
"""

CRD = """
package io.kcp.v1 crd
use meta kube/meta_v1
named Hook string pattern=^a$
kind Thing list | A thing.
  metadata  meta.ObjectMeta
  spec      Spec  required default={} | Its spec.
struct Spec
  hooks   [Hook]  minItems=1 | Hooks.
  free    raw     | Anything.
  since   time    required | When.
  choice  string  | One of two.
    json: {"oneOf": [{"enum": ["a"]}, {"enum": ["b"]}]}
"""


def library(**files: str) -> Library:
    texts = {"kube/meta_v1": META, "trees": TREES, "crd": CRD, **files}
    return Library(lambda path: texts[path])


def test_a_kind_has_its_type_fields_first_and_go_order() -> None:
    tree = library().kind("trees", "Tree")
    assert list(tree.properties) == ["kind", "apiVersion", "metadata", "spec", "planted"]
    assert tree.ref == "io.example.v1.Tree"
    assert tree.go_type == "v1.Tree"
    assert tree.required == ("spec",)


def test_pointers_and_presence() -> None:
    properties = library().kind("trees", "Tree").properties
    assert properties["planted"].pointer
    assert properties["planted"].codec == "time"
    assert properties["spec"].presence == "always"
    assert properties["spec"].default == {}
    assert not properties["planted"].has_default


def test_recursive_types_share_their_fields() -> None:
    tree = library().kind("trees", "Tree")
    branches = tree.properties["spec"].properties["branches"]
    assert branches.items is not None
    assert branches.items.properties is tree.properties
    assert branches.go_type == "[]v1.Tree"
    assert (branches.list_type, branches.list_keys) == ("map", ("name", "kind"))
    assert (branches.patch_strategy, branches.patch_merge_key) == ("merge", "name")


def test_named_types_carry_their_go_name_and_values() -> None:
    spec = library().kind("trees", "TreeSpec").properties
    assert spec["colour"].go_type == "v1.Colour"
    assert spec["sizes"].go_type == "v1.Sizes"
    assert spec["sizes"].additional is not None
    assert spec["sizes"].additional.enum == ("small", "very large")


def test_required_follows_presence_unless_the_line_says_otherwise() -> None:
    assert library().kind("trees", "TreeSpec").required == ("height",)


def test_rules_includes_and_flags() -> None:
    spec = library().kind("trees", "TreeSpec")
    assert spec.map_type == "atomic"
    assert spec.properties["height"].rules == ({"rule": "self > 0", "message": "must grow"},)
    assert spec.properties["height"].minimum == 1
    assert spec.properties["note"].default == "x"


def test_lists_come_by_themselves() -> None:
    trees = library().kind("trees", "TreeList")
    assert trees.required == ("items",)
    assert trees.properties["items"].items is not None
    assert trees.properties["items"].items.ref == "io.example.v1.Tree"
    with pytest.raises(KindsError, match="SharedList"):
        library().kind("trees", "SharedList")


def test_custom_kinds_are_inline_and_know_no_go() -> None:
    thing = library().kind("crd", "Thing")
    spec = thing.properties["spec"]
    assert (spec.ref, spec.go_type) == ("", "")
    assert thing.properties["metadata"].ref == "io.meta.v1.ObjectMeta"
    assert thing.required == ("spec",)
    assert spec.required == ("since",)
    assert spec.properties["free"].preserve_unknown
    assert (spec.properties["since"].ref, spec.properties["since"].format) == ("", "date-time")
    hooks = spec.properties["hooks"]
    assert hooks.items is not None
    assert (hooks.min_items, hooks.items.pattern) == (1, "^a$")
    assert [b.enum for b in spec.properties["choice"].one_of] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("  name string", "outside of any type"),
        ("thing X", "unknown statement"),
        ("struct A\nstruct A", "declared twice"),
        ("struct A\n  b string\n    nonsense: x", "expected rule"),
        ("struct A\n  b string\n    says: x", "expected rule"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, why: str) -> None:
    with pytest.raises(KindsError, match=why):
        parse(text)


def test_unknown_flags_and_names_are_refused() -> None:
    bad = "package p go=v1\nstruct A\n  b string nope=1\nstruct B\n  c x.D\nstruct E\n  f Missing"
    with pytest.raises(KindsError, match="unknown flag"):
        library(bad=bad).kind("bad", "A")
    with pytest.raises(KindsError, match="not a file in use"):
        library(bad=bad).kind("bad", "B")
    with pytest.raises(KindsError, match="no type 'Missing'"):
        library(bad=bad).kind("bad", "E")
