from __future__ import annotations

import pytest

from pykcp.proxy.watches import resumed_query


@pytest.mark.parametrize(
    ("query", "resumed"),
    [
        ("watch=true", "watch=true&resourceVersion=7"),
        ("watch=1&resourceVersion=3", "watch=1&resourceVersion=7"),
        (
            "labelSelector=a%3Db%2Cc&resourceVersion=3&watch=true&allowWatchBookmarks=true",
            "labelSelector=a%3Db%2Cc&watch=true&allowWatchBookmarks=true&resourceVersion=7",
        ),
        (
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            "watch=true&resourceVersion=7",
        ),
        ("watch=true&fieldSelector=", "watch=true&fieldSelector=&resourceVersion=7"),
    ],
)
def test_a_watch_goes_on_from_a_version(query: str, resumed: str) -> None:
    assert resumed_query(query, 7) == resumed
