"""Values, open at the place where the store fills in the revision."""

from __future__ import annotations

from typing import NamedTuple


class Value(NamedTuple):
    """Bytes around the place of the revision: head + str(revision) + tail."""

    head: bytes
    tail: bytes
