"""What a server answers, as the `StatusError` that it was raised as there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from pykcp.machinery import status
from pykcp.machinery.status import Cause, StatusError
from pykcp.types import Object

_BY_REASON: Mapping[str, type[StatusError]] = {
    kind.reason: kind
    for kind in (
        status.AlreadyExists,
        status.BadRequest,
        status.Conflict,
        status.Expired,
        status.Forbidden,
        status.Gone,
        status.InternalError,
        status.Invalid,
        status.MethodNotAllowed,
        status.NotAcceptable,
        status.NotFound,
        status.RequestEntityTooLarge,
        status.ServiceUnavailable,
        status.Timeout,
        status.TooManyRequests,
        status.Unauthorized,
        status.UnsupportedMediaType,
    )
}
_BY_CODE: Mapping[int, type[StatusError]] = {
    400: status.BadRequest,
    401: status.Unauthorized,
    403: status.Forbidden,
    404: status.NotFound,
    405: status.MethodNotAllowed,
    409: status.Conflict,
    410: status.Gone,
    413: status.RequestEntityTooLarge,
    429: status.TooManyRequests,
    503: status.ServiceUnavailable,
    504: status.Timeout,
}
_SHOWN = 500


def error_of(code: int, body: bytes) -> StatusError:
    """The error of a response; without a Status it consists of the code and the start of the body."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if isinstance(answer, dict) and answer.get("kind") == "Status":
        return error_of_status(answer, code)
    text = body[:_SHOWN].decode(errors="replace").strip()
    kind = _BY_CODE.get(code, StatusError)
    message = f"the server answered {code}" + (f": {text}" if text else "")
    return _made(kind, message, code, kind.reason if code in _BY_CODE else "Unknown", {}, "")


def error_of_status(answer: Object, code: int = 0) -> StatusError:
    """The error of a `Status` object: the body of an answer, or an event of a watch."""
    reason, details = _text(answer.get("reason")), answer.get("details")
    code = answer.get("code") or code or 500
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code, StatusError)
    token = _text((answer.get("metadata") or {}).get("continue"))
    return _made(kind, _text(answer.get("message")), code, reason, details or {}, token)


def _made(
    kind: type[StatusError], message: str, code: int, reason: str, details: Object, token: str
) -> StatusError:
    causes = [
        Cause(_text(c.get("reason")), _text(c.get("message")), _text(c.get("field")))
        for c in details.get("causes") or ()
    ]
    # Subclasses word their messages themselves; here the server has done so already.
    error = kind.__new__(kind, message)
    StatusError.__init__(
        error,
        message,
        group=_text(details.get("group")),
        kind=_text(details.get("kind")),
        name=_text(details.get("name")),
        uid=_text(details.get("uid")),
        causes=causes,
        retry_after=details.get("retryAfterSeconds"),
        code=code,
        reason=reason,
    )
    error.continue_token = token
    return error


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
