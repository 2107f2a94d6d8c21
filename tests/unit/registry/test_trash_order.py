"""In which order what was in a workspace comes back."""

from __future__ import annotations

import pytest

from pykcp.registry.trash import generations


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ({}, {}),
        ({"b": {"a"}}, {"a": 0, "b": 1}),
        ({"c": {"a", "b"}, "b": {"a"}}, {"a": 0, "b": 1, "c": 2}),
        ({"a": {"a"}}, {"a": 2}),
        (
            {"a": {"b"}, "b": {"a"}, "c": {"b"}, "e": {"d"}},
            {"a": 5, "b": 5, "c": 5, "d": 0, "e": 1},
        ),
        ({"b": set()}, {"b": 0}),
    ],
)
def test_owners_come_first(owners: dict[str, set[str]], expected: dict[str, int]) -> None:
    assert generations(owners) == expected


def test_a_tenant_cannot_make_it_long() -> None:
    """Not with one very long line of owners, nor with very many ways from one to another."""
    line = {str(n + 1): {str(n)} for n in range(20_000)}
    assert generations(line)["20000"] == 20_000
    lattice = {f"{side}{n + 1}": {f"a{n}", f"b{n}"} for n in range(200) for side in ("a", "b")}
    assert generations(lattice)["a200"] == 200
