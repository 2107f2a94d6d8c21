"""Requests without credentials: the user `system:anonymous`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pykcp.auth.user import ANONYMOUS_USER, User


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Allows requests without credentials, everywhere or on some paths only."""

    paths: Collection[str] = ()
    """If not empty, the only paths (without the cluster's prefix) that may be anonymous."""

    def authenticate(self, path: str) -> User | None:
        if self.paths and path not in self.paths:
            return None
        return ANONYMOUS_USER
