"""Descriptions of a resource and of a request for worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykcp.auth.user import User
from pykcp.registry.context import RequestContext


class KindRef(NamedTuple):
    """A resource by name, or by the CustomResourceDefinition that defines it."""

    group: str
    plural: str
    version: str
    source: bytes
    """The definition's JSON; empty for built-in kinds."""
    stored_versions: tuple[str, ...]
    since: int
    """The revision since when the definition is as it is."""


class Asker(NamedTuple):
    """Who writes, where and how."""

    cluster: str
    user: str
    uid: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]
    manager: str
    dry_run: bool
    field_validation: str

    def context(self) -> RequestContext:
        return RequestContext(
            self.cluster,
            User(self.user, self.uid, self.groups, self.extra),
            self.manager,
            dry_run=self.dry_run,
            field_validation=self.field_validation,
        )
