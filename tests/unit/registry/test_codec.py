"""Objects as bytes: what is stored is what is served."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from pykcp.registry import codec
from pykcp.registry.keys import (
    enclosing_prefixes,
    object_key,
    range_prefix,
    resource_prefix,
    split_key,
)


def config_map(**metadata: Any) -> dict[str, Any]:
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {**head, "metadata": {"name": "x", **metadata}, "data": {"a": "ü"}}


def test_the_revision_is_filled_in_without_decoding() -> None:
    """Stored bytes begin with the resource version; type and version are spliced in."""
    value = codec.encode(config_map(resourceVersion="1"), "root")
    stored = codec.fill(value, 42)
    assert stored.startswith(b'{"metadata":{"resourceVersion":"42"')
    assert codec.revision_of(stored) == 42
    obj = orjson.loads(codec.type_prefix("v1", "ConfigMap") + stored[1:])
    assert obj == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": "42",
            "name": "x",
            "annotations": {"kcp.io/cluster": "root"},
        },
        "data": {"a": "ü"},
    }


def test_the_cluster_is_stamped_whatever_was_sent() -> None:
    """The annotation is the store's; others are kept, and the argument is not changed."""
    sent = config_map(annotations={"kcp.io/cluster": "forged", "mine": "1"})
    stored = codec.decode(codec.fill(codec.encode(sent, "root"), 1))
    assert stored["metadata"]["annotations"] == {"kcp.io/cluster": "root", "mine": "1"}
    assert sent["metadata"]["annotations"]["kcp.io/cluster"] == "forged"


def test_writers_do_not_see_the_cluster() -> None:
    """What a writer is compared with is without the annotation, and without an empty map."""
    stored = codec.fill(codec.encode(config_map(), "root"), 1)
    assert "annotations" not in codec.decode_without_cluster(stored)["metadata"]
    for odd in ({}, {"metadata": None}, {"metadata": {"annotations": []}}):
        codec.strip_cluster(odd)  # whatever a client sends


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "a"},
        {"name": "a", "annotations": {"note": 'x","kcp.io/cluster":"y'}},
        {"annotations": {"kcp.io/cluster": "old", "z": "1"}, "name": "a"},
        {"labels": {"kcp.io/cluster": "one", "annotations": "{"}, "name": "a"},
        {"annotations": {}, "name": "a", "finalizers": ["example.org/annotations"]},
    ],
)
def test_stored_bytes_without_the_cluster(metadata: dict[str, Any]) -> None:
    """The same as the decoded object without it, whatever else it says."""
    inner = {"metadata": {"annotations": {"kcp.io/cluster": "one"}}}
    obj: dict[str, Any] = {"metadata": metadata, "spec": {"template": inner}}
    value = codec.fill(codec.encode(obj, "one"), 7)
    cut = codec.without_cluster(value)
    expected = codec.decode_without_cluster(value)
    assert codec.decode(cut) == expected
    assert expected["spec"]["template"] == inner
    assert codec.revision_of(cut) == 7
    assert codec.without_cluster(b'{"metadata":{"name":"a"}}') == b'{"metadata":{"name":"a"}}'


def test_a_last_event_reopens_the_revision() -> None:
    """A deletion stores the last state again, under its own revision."""
    stored = codec.fill(codec.encode(config_map(), "root"), 7)
    assert codec.fill(codec.reopen(stored), 1234) == stored.replace(b'"7"', b'"1234"', 1)


@pytest.mark.parametrize("version", ["", "5"])
def test_what_is_not_stored_has_its_own_version_or_none(version: str) -> None:
    """A dry run of a create has no resource version, one of an update the object's."""
    metadata = {"resourceVersion": version} if version else {}
    obj = orjson.loads(codec.unversioned(config_map(**metadata), "root"))
    assert obj["metadata"].get("resourceVersion", "") == version
    assert obj["metadata"]["name"] == "x"
    assert codec.revision_of(codec.unversioned(config_map(**metadata), "root")) == int(version or 0)


def test_copies_are_deep() -> None:
    """Changing a copy leaves the original alone."""
    original = config_map()
    codec.copy(original)["data"]["a"] = "changed"
    assert original["data"]["a"] == "ü"


def test_keys() -> None:
    """Group, resource, cluster, namespace and name have fixed places."""
    prefix = resource_prefix("", "configmaps")
    key = object_key(prefix, "c", "n", "x")
    assert key == "core/configmaps/c/n/x"
    assert split_key(key) == (prefix, "c", "n", "x")
    assert object_key(resource_prefix("a.b", "things", "id"), "c", "", "x") == "a.b/things:id/c//x"
    assert range_prefix(prefix, "c", "n") == "core/configmaps/c/n/"
    assert range_prefix(prefix, "c") == "core/configmaps/c/"
    assert range_prefix(prefix, "*", "n") == prefix


@pytest.mark.parametrize(
    "key", ["core/configmaps/c/n/x", "core/namespaces/c//x", "a.b/things:i/c/n/x"]
)
def test_every_prefix_that_is_watched_encloses_the_key(key: str) -> None:
    """Resource, cluster, namespace and the key itself, each a prefix of the next."""
    prefixes = enclosing_prefixes(key)
    parts = split_key(key)
    assert prefixes == (
        parts.resource_prefix,
        range_prefix(parts.resource_prefix, parts.cluster),
        f"{parts.resource_prefix}{parts.cluster}/{parts.namespace}/",
        key,
    )


def test_very_small_parts_are_not_searched_for() -> None:
    """Finding a million of them takes ten times as long as decoding them."""
    value = codec.fill(codec.encode({"metadata": {}, "spec": {"a": [1] * 100_000}}, "root"), 7)
    steps = codec.decode_in_steps(value)
    with pytest.raises(StopIteration) as end:
        next(steps)
    is_same = end.value.value == codec.decode(value)
    assert is_same


@pytest.mark.parametrize("count", [1, 3_000])
def test_steps_and_one_go_agree(count: int) -> None:
    rule = {"apiGroups": ["ä", ""], "resources": ["r" * 20], "verbs": ["*"], "n": [1, 1.5, None]}
    keyed = {f"k:{n}": {"f:a": {}} for n in range(count)}
    part = {"list": [rule] * count, "text": "x" * 9, "map": {"deep": [rule] * 2}, "none": None}
    part["managers"] = [{"name": "a"}, {"fields": {"f:spec": keyed}}, {"name": "b"}]
    obj = {"metadata": {"name": "x", "labels": {"a": "b"}}, "rules": [rule] * count, "more": []}
    obj |= {"spec": part, "status": {}, "other": part}
    value = codec.fill(codec.encode(obj, "root"), 7)
    steps = codec.decode_in_steps(value)
    yields = 0
    try:
        while True:
            next(steps)
            yields += 1
    except StopIteration as end:
        found = end.value
    assert found == codec.decode(value)
    octets_of_lists = 2 * count * 99
    assert (yields > octets_of_lists / 10_000) == (count > 1)


@pytest.mark.parametrize(
    "obj",
    [
        config_map(),
        config_map(uid="u", annotations={"a": "b"}, managedFields=[{"manager": "m"}]),
        {"metadata": {"name": "x"}, "spec": None, "status": {"é": ["\u2028", 1.5, {}]}},
    ],
)
def test_an_outline_is_stored_as_its_object_is(obj: dict[str, Any]) -> None:
    outline = codec.outline_of(obj)
    stored, wanted = codec.encode_outline(outline, "root"), codec.encode(obj, "root")
    assert codec.fill(stored, 7) == codec.fill(wanted, 7)
    assert codec.filled_in(outline) == obj
    again = codec.outline(codec.fill(stored, 7))
    assert again["metadata"]["annotations"][codec.CLUSTER_ANNOTATION] == "root"
    for name in ("data", "spec", "status"):
        assert again.get(name) == outline.get(name)


def test_members_of_an_outline() -> None:
    outline = codec.outline_of({"metadata": {"name": "x"}, "spec": {"a": 1}, "status": {}})
    assert codec.members_of(outline, ("spec", "data")) == {
        "metadata": {"name": "x"},
        "spec": {"a": 1},
    }


def test_some_members() -> None:
    text = b'{"a":{"b":[1]},"c":"\\u00e9","d":null}'
    assert codec.some_members(text, ("a", "c", "x")) == {"a": {"b": [1]}, "c": "é"}
