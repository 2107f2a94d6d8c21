"""Templates: a copy differs from the first in its words and in nothing else."""

from __future__ import annotations

import pytest

from pykcp.registry import codec
from pykcp.registry.verbs.templates import ObjectTemplate, uid_and_time
from pykcp.storage.operations import PutKey
from pykcp.types import Object

_NOW = "2026-01-02T03:04:05Z"


def _object(name: str = "n", uid: str = "u-1", at: str = _NOW, **more: object) -> Object:
    metadata = {
        "name": name,
        "uid": uid,
        "creationTimestamp": at,
        "managedFields": [{"manager": "m", "time": at}],
    }
    return {"metadata": metadata, **more}


def _put(obj: Object, cluster: str, indexes: tuple[str, ...] = ()) -> PutKey:
    name = obj["metadata"]["name"]
    terms = f"\x1fl:a=b\x1ff:metadata.name={name}\x1f"
    return PutKey(f"g/r/{cluster}//{name}", codec.encode(obj, cluster), terms, indexes, 0)


def _filled(template: ObjectTemplate, *words: str) -> PutKey | None:
    found = template.instantiate(words)
    return None if found is None else PutKey(f"g/r/{words[0]}//{words[3]}", *found, 0)


def test_an_empty_template_gives_nothing() -> None:
    assert ObjectTemplate().instantiate(("c", "u", _NOW)) is None


def test_only_the_words_differ() -> None:
    template = ObjectTemplate()
    first = _put(_object("first", data={"n": "ü\n", "same": "x"}), "c1xyz", ("i", "j"))
    template.learn(first, ("c1xyz", *uid_and_time(first), "first"))
    later = "2027-01-01T00:00:00Z"
    second = _object("second", "u-2", later, data={"n": "ü\n", "same": "x"})
    assert _filled(template, "c2xyz", "u-2", later, "second") == _put(second, "c2xyz", ("i", "j"))


@pytest.mark.parametrize(
    ("obj", "indexes", "why"),
    [
        (_object(status={"at": "2026-01-02T03:04:06Z"}), (), "a time that is not the object's"),
        (_object(url="https://x/clusters/c1xyz"), (), "the cluster within another text"),
        (_object(), ("owner:c1xyz:u",), "the cluster in an index entry"),
    ],
)
def test_what_would_be_wrong_for_others_makes_no_template(
    obj: Object, indexes: tuple[str, ...], why: str
) -> None:
    template = ObjectTemplate()
    put = _put(obj, "c1xyz", indexes)
    template.learn(put, ("c1xyz", *uid_and_time(put), "n"))
    assert template.instantiate(("c2", "u", _NOW, "n")) is None, why


@pytest.mark.parametrize("word", ['a"b', "a\\", "a\x00b", "a\x01b", "a\x1fb", "a\n", "\u2028"])
def test_words_that_could_be_more_than_words_are_not_instantiated(word: str) -> None:
    template = ObjectTemplate()
    first = _put(_object("first"), "c1xyz")
    template.learn(first, ("c1xyz", *uid_and_time(first), "first"))
    assert template.instantiate(("c2", "u", _NOW, "plain ü:/@")) is not None
    assert template.instantiate(("c2", "u", _NOW, word)) is None
    other = ObjectTemplate()
    other.learn(first, ("c1xyz", *uid_and_time(first), "first", word))
    assert other.instantiate(("c2", "u", _NOW, "n", "x")) is None
