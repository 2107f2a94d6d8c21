"""Errors of the registry, and the one place where storage errors become API statuses."""

from __future__ import annotations

import logging
import time

from pykcp.machinery.status import (
    Cause,
    Expired,
    InternalError,
    RequestEntityTooLarge,
    ServiceUnavailable,
    StatusError,
    Timeout,
)
from pykcp.storage import errors

_log = logging.getLogger(__name__)


def translate(error: errors.StoreError) -> StatusError:
    """The status a client should see for a storage error that no verb handles itself.

    Files and addresses in its message are logged, but not sent to clients.
    """
    match error:
        case errors.Compacted():
            return Expired(
                f"too old resource version: {error.revision} ({error.oldest})", details=False
            )
        case errors.FutureRevision():
            return too_large_revision(error.revision, error.current)
        case errors.MovedAway():
            return moved_away(error.shard)
        case errors.TooLarge():
            return RequestEntityTooLarge(str(error), details=False)
        case errors.StoreFull():
            _log_full(error)
            return ServiceUnavailable("the store is full", retry_after=10)
        case errors.StoreUnavailable():
            _log.warning("the store is not available: %s", error)
            return ServiceUnavailable("the store is not available", retry_after=1)
        case _:
            _log.error("the store failed: %s", error)
            return InternalError(str(error) if error.is_told else "the store failed")


def too_large_revision(asked: int, current: int) -> StatusError:
    """Clients retry on this cause: the server may only be behind."""
    return Timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )


def moved_away(shard: str) -> StatusError:
    """Clients try again; a front-proxy knows where."""
    status = ServiceUnavailable("logical cluster is being migrated", retry_after=1)
    status.moved_to = shard
    return status


_FULL_LOGGED_EVERY = 10.0
_full_logged = [-_FULL_LOGGED_EVERY]


def _log_full(error: errors.StoreError) -> None:
    """Every write of every tenant is refused while the store is full: not each is logged."""
    now = time.monotonic()
    if now - _full_logged[0] >= _FULL_LOGGED_EVERY:
        _full_logged[0] = now
        _log.error("the store is full: %s", error)
