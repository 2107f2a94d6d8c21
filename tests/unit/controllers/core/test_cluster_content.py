"""How much of a logical cluster one transaction deletes."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.controllers.core.cluster_content import chunk_size
from pykcp.registry.cluster_content import ContentItem

NOTHING: Any = None
MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], 0),
        ([100] * 3, 3),
        ([100] * 6, 5),
        ([9 * MEGABYTE], 1),
        ([9 * MEGABYTE] * 2, 1),
        ([100, 9 * MEGABYTE], 1),
        ([4 * MEGABYTE] * 4, 2),
    ],
)
def test_chunks_have_few_objects_and_few_octets(sizes: list[int], expected: int) -> None:
    items = [ContentItem(NOTHING, NOTHING, size=size) for size in sizes]
    assert chunk_size(items, 5) == expected
