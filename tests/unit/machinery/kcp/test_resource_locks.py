"""Who owns a resource in a logical cluster."""

import pytest

from pykcp.machinery.kcp import resource_locks as locks
from pykcp.machinery.kcp.resource_locks import ResourceLock

BEFORE, NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


def test_text_is_kcps() -> None:
    held = {
        "widgets.example.com": ResourceLock("mine"),
        "gadgets.example.com": ResourceLock(is_crd=True, expiry=NOW),
        "sheriffs": ResourceLock(is_crd=True),
    }
    text = (
        '{"gadgets.example.com":{"c":true,"e":"2026-01-01T00:01:00Z"},'
        '"sheriffs":{"c":true},"widgets.example.com":{"n":"mine"}}'
    )
    assert locks.text(held) == text
    assert locks.parse(text) == held
    assert locks.text({}) == "{}"


@pytest.mark.parametrize("empty", ["", "{}", "null"])
def test_nothing_is_locked(empty: str) -> None:
    assert locks.parse(empty) == {}


@pytest.mark.parametrize("bad", ["{", "[]x", "[1]", '{"a":"b"}'])
def test_nonsense_is_an_error(bad: str) -> None:
    with pytest.raises(locks.MalformedLocks, match="failed to unmarshal ResourceBindings"):
        locks.parse(bad)


@pytest.mark.parametrize(
    ("found", "crds", "is_free"),
    [
        (None, (), True),
        (ResourceLock("mine"), (), True),
        (ResourceLock("other"), (), False),
        (ResourceLock(is_crd=True), (), False),
        (ResourceLock(is_crd=True, expiry=LATER), (), False),
        (ResourceLock(is_crd=True, expiry=BEFORE), ("r.g",), False),
        (ResourceLock(is_crd=True, expiry=BEFORE), (), True),
    ],
)
def test_whoever_comes_first_keeps_it(
    found: ResourceLock | None, crds: tuple[str, ...], is_free: bool
) -> None:
    before = {} if found is None else {"r.g": found}
    after, held = locks.acquire(before, ["r.g"], ResourceLock("mine"), crds=crds, now=NOW)
    if is_free:
        assert (after, held) == ({"r.g": ResourceLock("mine")}, {})
    else:
        assert (after, held) == (before, before)


def test_what_is_gone_is_pruned() -> None:
    before = {
        "a.g": ResourceLock("there"),
        "b.g": ResourceLock("gone"),
        "c.g": ResourceLock(is_crd=True, expiry=BEFORE),
        "d.g": ResourceLock(is_crd=True),
        "e.g": ResourceLock(is_crd=True, expiry=BEFORE),
        "f.g": ResourceLock(is_crd=True, expiry=LATER),
    }
    after = locks.pruned(
        before, bindings={"there"}, crds={"c.g", "h.g", "i.g"}, established={"h.g"}, now=NOW
    )
    assert after == {
        "a.g": ResourceLock("there"),
        "c.g": ResourceLock(is_crd=True),
        "f.g": ResourceLock(is_crd=True, expiry=LATER),
        "h.g": ResourceLock(is_crd=True),
    }
    assert locks.next_expiry(after) == LATER


def test_a_crd_does_not_take_what_a_binding_has() -> None:
    after = locks.pruned(
        {"a.g": ResourceLock("b")}, bindings={"b"}, crds={"a.g"}, established={"a.g"}, now=NOW
    )
    assert after == {"a.g": ResourceLock("b")}


def test_words() -> None:
    assert str(ResourceLock("b")) == "{b false}"
    assert str(ResourceLock(is_crd=True)) == "{ true}"


def test_who_has_something_of_a_group() -> None:
    held = {
        "a.g": ResourceLock("b"),
        "c.g.h": ResourceLock("d"),
        "e": ResourceLock("f"),
        "i.g": ResourceLock(is_crd=True),
    }
    assert locks.bindings_in(held, {"g"}) == {"b"}
    assert locks.bindings_in(held, {"", "g.h"}) == {"d", "f"}
