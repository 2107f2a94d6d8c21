"""The status of a migration, which both shards write."""

from __future__ import annotations

import pytest

from pykcp.controllers.migration.migrations import newer_status
from pykcp.types import Object

COPIED: Object = {"phase": "OriginCleanup", "entriesCopied": 7}


@pytest.mark.parametrize(
    ("live", "made", "expected"),
    [
        ({}, {"phase": "Preparing"}, {"phase": "Preparing"}),
        ({"phase": "Migrating"}, COPIED, COPIED),
        (COPIED, {"phase": "OriginCleanup"}, COPIED),
        (COPIED, {"phase": "Migrating", "entriesCopied": 9}, COPIED),
        ({"phase": "Completed"}, {"phase": "OriginCleanup"}, {"phase": "Completed"}),
        (COPIED, {"phase": "Failed"}, {"phase": "Failed", "entriesCopied": 7}),
        ({"phase": "Migrating", "entriesCopied": 3}, {"phase": "Migrating", "entriesCopied": 5},
         {"phase": "Migrating", "entriesCopied": 5}),
    ],
)  # fmt: skip
def test_a_copy_that_is_out_of_date_takes_nothing_back(
    live: Object, made: Object, expected: Object
) -> None:
    assert newer_status(live, made) == expected
