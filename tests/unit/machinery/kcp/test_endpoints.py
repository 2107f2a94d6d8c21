"""Which address of a slice a shard uses."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.kcp.endpoints import (
    MAX_HOPS,
    BadEndpoints,
    NoEndpoints,
    endpoints_of,
    pick_url,
    read_hops,
)

OWN = "https://here"
LABELS = {"name": "root", "region": "eu"}


def at(url: str, **shards: Any) -> dict[str, Any]:
    return {"url": url, "shards": shards} if shards else {"url": url}


def where(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([at("https://here/a"), at("https://there/a")], "https://here/a"),
        ([at("https://x", matchAll=True)], "https://x"),
        ([at("https://x", matchAll=True), at("https://here/a")], "https://x"),
        (
            [at("https://x", matchAll=True), at("https://eu", selector=where(region="eu"))],
            "https://eu",
        ),
        (
            [
                at("https://eu", selector=where(region="eu")),
                at("https://me", selector=where(region="eu", name="root")),
                at("https://us", selector=where(region="us")),
            ],
            "https://me",
        ),
        ([at("https://x", selector={})], "https://x"),
    ],
)
def test_choices(endpoints: list[dict[str, Any]], expected: str) -> None:
    assert pick_url(OWN, LABELS, endpoints) == expected


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([], 'no URLs match prefix "https://here"'),
        ([at("https://there")], 'no URLs match prefix "https://here"'),
        (
            [at("https://here/a"), at("https://here/b")],
            'ambiguous URLs [https://here/a https://here/b] with prefix "https://here"',
        ),
        (
            [at("https://x", selector=where(region="us"))],
            "none of the endpoints [https://x] select a shard labelled name=root,region=eu",
        ),
        (
            [at("https://x", matchAll=True), at("https://y", matchAll=True)],
            "2 endpoints select a shard labelled name=root,region=eu equally well, out of [",
        ),
        (
            [at("https://x", matchAll=True, selector=where(region="eu"))],
            'endpoint "https://x" sets both matchAll and selector, which are mutually exclusive',
        ),
        (
            [at("https://x", selector={"matchExpressions": [{"key": "a", "operator": "Near"}]})],
            'endpoint "https://x" has an invalid shard selector: ',
        ),
    ],
)
def test_no_choice(endpoints: list[dict[str, Any]], expected: str) -> None:
    with pytest.raises(BadEndpoints) as caught:
        pick_url(OWN, LABELS, endpoints)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("found", [{}, {"status": {}}, {"status": {"endpoints": None}}])
def test_nothing_yet(found: dict[str, Any]) -> None:
    with pytest.raises(NoEndpoints):
        endpoints_of(found)


@pytest.mark.parametrize(
    "status", [1, {"endpoints": "x"}, {"endpoints": ["x"]}, {"endpoints": [{"address": "x"}]}]
)
def test_odd_slices(status: Any) -> None:
    with pytest.raises(BadEndpoints):
        endpoints_of({"status": status})


@pytest.mark.parametrize(
    ("header", "expected"),
    [(None, 0), ("", 0), ("0", 0), ("3", 3), ("x", MAX_HOPS), ("-1", MAX_HOPS), ("9", 9)],
)
def test_hops(header: str | None, expected: int) -> None:
    assert read_hops(header) == expected
