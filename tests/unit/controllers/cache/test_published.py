"""What has to be done to copies, in caches that keep the text of objects and in those that do not."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykcp.controllers.cache.published import PublishedCopies, plan_copy
from pykcp.controllers.cache.replication_plan import CopyAction, copy_of
from pykcp.registry import codec

LOCAL = b'{"metadata":{"name":"x","uid":"u","resourceVersion":"5"},"spec":{"a":1,"b":[2]}}'
SORTED = b'{"b": [2], "a": 1}'


class Published:
    def __init__(self, keeps_texts: bool) -> None:
        self.keeps_texts = keeps_texts


def copied(spec: bytes) -> dict[str, Any]:
    copy = copy_of(codec.decode(LOCAL), "root")
    copy["metadata"]["resourceVersion"] = "9"
    del copy["spec"]
    return codec.outline(codec.outline_text(copy)[:-1] + b',"spec":' + spec + b"}")


@pytest.mark.parametrize(
    ("keeps_texts", "spec", "expected"),
    [
        (True, b'{"a":1,"b":[2]}', CopyAction.NOTHING),
        (True, SORTED, CopyAction.UPDATE),
        (False, b'{"a":1,"b":[2]}', CopyAction.NOTHING),
        (False, SORTED, CopyAction.NOTHING),
        (False, b'{"a":1,"b":[3]}', CopyAction.UPDATE),
    ],
)
async def test_copies_are_compared(keeps_texts: bool, spec: bytes, expected: CopyAction) -> None:
    """kcp's cache server sorts members: a copy there is not written again and again."""
    published = cast("PublishedCopies", Published(keeps_texts))
    todo = await plan_copy(published, "c", codec.outline(LOCAL), copied(spec), "root")
    assert todo.action is expected
