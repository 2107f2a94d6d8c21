"""Identifiers from random digits."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from pykcp.registry.clock import random_uid


def test_uids_are_random_uuids() -> None:
    made = [random_uid() for _ in range(2000)]
    assert len(set(made)) == len(made)
    read = [UUID(text) for text in made]
    assert [str(uid) for uid in read] == made
    assert {uid.version for uid in read} == {4}
    assert {uid.variant for uid in read} == {RFC_4122}
    assert {text[19] for text in made} == set("89ab")
