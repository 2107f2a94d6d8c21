"""Deleting many objects of a kind: together, so that they share commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pykcp.clients.interface import Client
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import StatusError


async def delete_together(
    client: Client, cluster: str, kind: GroupVersionResource, objects: Iterable[tuple[str, str]]
) -> list[str]:
    """Delete objects, given as name and namespace; returns the errors of those that failed."""
    outcomes = await asyncio.gather(
        *(
            client.delete(cluster, kind, name, namespace, propagation="Background")
            for name, namespace in objects
        ),
        return_exceptions=True,
    )
    errors = []
    for outcome in outcomes:
        if isinstance(outcome, StatusError):
            errors.append(outcome.message)
        elif isinstance(outcome, BaseException):
            raise outcome
    return errors
