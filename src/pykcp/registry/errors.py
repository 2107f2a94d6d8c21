"""The one place where storage errors become API statuses."""

from __future__ import annotations

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


def translate(error: errors.StoreError) -> StatusError:
    """The status a client should see for a storage error that no verb handles itself."""
    match error:
        case errors.Compacted():
            return Expired(
                f"too old resource version: {error.revision} ({error.oldest})", details=False
            )
        case errors.FutureRevision():
            return too_large_revision(error.revision, error.current)
        case errors.TooLarge():
            return RequestEntityTooLarge(str(error), details=False)
        case errors.StoreFull():
            return ServiceUnavailable(f"the store is full: {error}", retry_after=10)
        case errors.Unavailable():
            return ServiceUnavailable(f"the store is not available: {error}", retry_after=1)
        case _:
            return InternalError(str(error))


def too_large_revision(asked: int, current: int) -> StatusError:
    """Clients retry on this cause: the server may only be behind."""
    return Timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )
