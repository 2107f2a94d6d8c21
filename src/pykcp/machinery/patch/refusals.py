"""The three errors of a patch that are not field errors."""

from __future__ import annotations

from pykcp.machinery.status import RequestEntityTooLarge, StatusError


def unprocessable(why: str) -> StatusError:
    """422 as upstream answers a patch that does not fit; the reason stays on the server."""
    error = StatusError(
        "the server rejected our request due to an error in our request",
        code=422,
        reason="Invalid",
    )
    error.add_note(why)
    return error


class PatchTooCostly(StatusError):
    """The same for a patch that would cost more than patches may; `why` is the library's text."""

    def __init__(self, why: str) -> None:
        same = unprocessable(why)
        super().__init__(same.message, code=same.code, reason=same.reason)
        self.why = why
        self.add_note(why)


def unexpected(message: str) -> StatusError:
    """500 as upstream answers an error that has no status of its own: no reason, no details."""
    return StatusError(message, code=500, reason="", details=False)


def too_large(message: str) -> StatusError:
    """413 with the limit in the message."""
    return RequestEntityTooLarge(f"Request entity too large: {message}", details=False)
