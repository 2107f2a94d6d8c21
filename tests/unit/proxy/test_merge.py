"""Events of several shards leave in the order of their revisions, and only when none is missing."""

from __future__ import annotations

import random

import pytest

from pykcp.proxy.merge import EventMerge, PageToken, decode_part, decode_token, read_line, tail


def test_an_event_waits_for_the_other_shards() -> None:
    merge = EventMerge(("a", "b"), 10)
    merge.receive("a", 15, b"15")
    assert merge.take() == []
    assert (merge.wanted, merge.lagging()) == (15, ["b"])
    merge.receive("b", 12, b"12")
    assert merge.take() == [b"12"]
    merge.receive("b", 20, None)
    assert merge.take() == [b"15"]
    assert (merge.wanted, merge.lagging(), merge.reached) == (0, [], 15)


def test_events_that_come_twice_leave_once() -> None:
    merge = EventMerge(("a",), 0)
    merge.receive("a", 1, b"1")
    assert merge.take() == [b"1"]
    merge.receive("a", 1, b"1")
    assert merge.take() == []


@pytest.mark.parametrize("seed", range(20))
def test_any_interleaving_gives_the_same_order(seed: int) -> None:
    chance = random.Random(seed)
    shards = {name: [] for name in "abc"}
    for revision in range(1, 200):
        shards[chance.choice("abc")].append(revision)
    merge, out = EventMerge(shards, 0), []
    while any(shards.values()):
        name = chance.choice([n for n, left in shards.items() if left])
        revision = shards[name].pop(0)
        merge.receive(name, revision, str(revision).encode())
        out += merge.take()
        if chance.random() < 0.2:  # a lagging shard says how far it is
            other = chance.choice("abc")
            upto = shards[other][0] - 1 if shards[other] else 1000
            merge.receive(other, upto, None)
            out += merge.take()
    for name in "abc":
        merge.receive(name, 1000, None)
    out += merge.take()
    assert out == [str(revision).encode() for revision in range(1, 200)]


def test_lines() -> None:
    line = b'{"type":"ADDED","object":{"kind":"X","metadata":{"resourceVersion":"7"}}}'
    assert read_line(line) == ("ADDED", 7, line)
    assert read_line(b'{"type":"ERROR","object":{"metadata":{}}}').revision == 0


def test_lists() -> None:
    part = decode_part(
        b'{"kind":"XList","apiVersion":"v1","metadata":{"continue":"abc"},"items":[{"a":1}]}'
    )
    assert part.next_token == "abc"
    assert part.head() + b",".join(part.members) + tail(5, "t") == (
        b'{"kind":"XList","apiVersion":"v1","items":[{"a":1}],'
        b'"metadata":{"resourceVersion":"5","continue":"t"}}\n'
    )
    table = decode_part(
        b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[1],"rows":[2]}'
    )
    assert table.head() + b",".join(table.members) == (
        b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[1],"rows":[2'
    )


def test_tokens() -> None:
    assert decode_token(b'{"revision":5,"shard":"a","inner":"x"}') == PageToken(5, "a", "x")
