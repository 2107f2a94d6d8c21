"""Errors as clients see them: one class per reason, each building its exact `Status`.

Raise one of these anywhere above storage; the server turns it into the body and
the HTTP code. The texts are part of the contract: clients and people match them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class Cause:
    """One line of `details.causes`."""

    reason: str
    message: str
    field: str = ""

    def to_json(self) -> Object:
        out: Object = {"reason": self.reason} if self.reason else {}
        out["message"] = self.message
        if self.field:
            out["field"] = self.field
        return out


MAX_FIELD_ERRORS = 500
"""How many field errors one answer names. Checks may stop looking once they have found more."""
_MAX_ERROR_TEXT = 1024 * 1024


class StatusError(Exception):
    """An API error: HTTP code, machine-readable reason, message and details."""

    code = 500
    reason = "InternalError"
    moved_to = ""
    """The shard that a front-proxy should send the request to instead."""

    def __init__(
        self,
        message: str,
        *,
        group: str = "",
        kind: str = "",
        name: str = "",
        uid: str = "",
        causes: Sequence[Cause] = (),
        retry_after: int | None = None,
        details: bool = True,
        code: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.group, self.kind, self.name, self.uid = group, kind, name, uid
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.continue_token = ""
        """Set on an expired list: a token with which it can go on, inconsistently."""
        self._details = details
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Whole, whatever the subclass's own arguments are: errors come out of worker processes."""
        return _rebuilt, (type(self), self.args, self.__dict__)

    def details(self) -> Object | None:
        if not self._details:
            return None
        out: Object = {}
        if self.name:
            out["name"] = self.name
        if self.group:
            out["group"] = self.group
        if self.kind:
            out["kind"] = self.kind
        if self.uid:
            out["uid"] = self.uid
        if self.causes:
            out["causes"] = [c.to_json() for c in self.causes]
        if self.retry_after is not None:
            out["retryAfterSeconds"] = self.retry_after
        return out

    def to_json(self) -> Object:
        """The `Status` object, fields in upstream's order."""
        out: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            out["reason"] = self.reason
        details = self.details()
        if details is not None:
            out["details"] = details
        out["code"] = self.code
        return out


def _rebuilt(kind: type[StatusError], args: tuple[Any, ...], state: Object) -> StatusError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def qualified(group: str, resource: str) -> str:
    """`configmaps`, or `roles.rbac.authorization.k8s.io`."""
    return f"{resource}.{group}" if group else resource


class BadRequest(StatusError):
    code, reason = 400, "BadRequest"

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, **{"details": False, **more})


class Unauthorized(StatusError):
    code, reason = 401, "Unauthorized"

    def __init__(self, message: str = "Unauthorized") -> None:
        super().__init__(message, details=False)


class Forbidden(StatusError):
    code, reason = 403, "Forbidden"

    @classmethod
    def resource(cls, group: str, resource: str, name: str, why: str) -> Self:
        """An admission or authorization refusal that names the object."""
        what = qualified(group, resource)
        if not resource:
            message = f"forbidden: {why}"
        elif name:
            message = f'{what} "{name}" is forbidden: {why}'
        else:
            message = f"{what} is forbidden: {why}"
        return cls(message, group=group, kind=resource, name=name)


class Denied(Forbidden):
    """Access denied: neither the message nor the response time may disclose what exists."""


class NotFound(StatusError):
    code, reason = 404, "NotFound"

    @classmethod
    def resource(cls, group: str, resource: str, name: str) -> NotFound:
        return cls(
            f'{qualified(group, resource)} "{name}" not found',
            group=group,
            kind=resource,
            name=name,
        )

    @classmethod
    def path(cls) -> NotFound:
        """The generic answer to a path that leads nowhere."""
        return cls("the server could not find the requested resource")


class MethodNotAllowed(StatusError):
    code, reason = 405, "MethodNotAllowed"

    @classmethod
    def action(cls, group: str, resource: str, action: str) -> MethodNotAllowed:
        return cls(
            f'{action} is not supported on resources of kind "{qualified(group, resource)}"',
            group=group,
            kind=resource,
        )


class NotAcceptable(StatusError):
    code, reason = 406, "NotAcceptable"

    def __init__(self, accepted: Sequence[str]) -> None:
        super().__init__(
            "only the following media types are accepted: " + ", ".join(accepted), details=False
        )

    @classmethod
    def because(cls, why: str) -> NotAcceptable:
        refusal = cls(())
        refusal.message = why
        return refusal


class Conflict(StatusError):
    code, reason = 409, "Conflict"

    @classmethod
    def resource(cls, group: str, resource: str, name: str, why: str) -> Conflict:
        return cls(
            f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {why}',
            group=group,
            kind=resource,
            name=name,
        )


OPTIMISTIC_LOCK = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class AlreadyExists(StatusError):
    code, reason = 409, "AlreadyExists"

    @classmethod
    def resource(cls, group: str, resource: str, name: str) -> AlreadyExists:
        return cls(
            f'{qualified(group, resource)} "{name}" already exists',
            group=group,
            kind=resource,
            name=name,
        )


class Expired(StatusError):
    code, reason = 410, "Expired"


class Gone(StatusError):
    code, reason = 410, "Gone"


class RequestEntityTooLarge(StatusError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(StatusError):
    code, reason = 415, "UnsupportedMediaType"

    def __init__(self, accepted: Sequence[str]) -> None:
        super().__init__(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted),
            details=False,
        )


class Invalid(StatusError):
    """422 with one cause per field error."""

    code, reason = 422, "Invalid"

    @classmethod
    def fields(cls, group: str, kind: str, name: str, errors: Sequence[FieldError]) -> Invalid:
        """The aggregate of field errors, as upstream words it.

        It says no more than `MAX_FIELD_ERRORS` of them and a megabyte: an answer is not to be
        a hundred times as long as what it answers.
        """
        texts: dict[str, None] = {}
        causes: list[Cause] = []
        size = 0
        for error in errors:
            if len(causes) >= MAX_FIELD_ERRORS or size > _MAX_ERROR_TEXT:
                texts["too many errors"] = None
                break
            cause = Cause(error.reason, error.body(), error.path)
            causes.append(cause)
            text = f"{error.path}: {cause.message}"
            texts[text] = None
            size += len(text)
        message = f'{kind}.{group} "{name}" is invalid' if group else f'{kind} "{name}" is invalid'
        if texts:
            body = ", ".join(texts)
            message += f": {body}" if len(texts) == 1 else f": [{body}]"
        return cls(message, group=group, kind=kind, name=name, causes=causes)


class TooManyRequests(StatusError):
    code, reason = 429, "TooManyRequests"


class InternalError(StatusError):
    code, reason = 500, "InternalError"

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(f"Internal error occurred: {message}", causes=[Cause("", message)], **more)


class ServiceUnavailable(StatusError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(StatusError):
    code, reason = 504, "Timeout"


def _go_value(value: Any) -> str:
    """A value as Go's field errors print it: strings quoted, objects as compact JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        from pykcp.machinery.patch.gotext import show_float

        return show_float(value)
    from pykcp.machinery.patch import gojson

    return gojson.shown(value)


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}


class _Quoted(dict[int, str]):
    """How characters stand in a quoted string. Only ASCII is remembered: the rest is large."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char.isprintable():
            return char
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_QUOTED = _Quoted(
    (code, _ESCAPES.get(chr(code)) or (chr(code) if chr(code).isprintable() else f"\\x{code:02x}"))
    for code in range(0x80)
)


def go_quote(text: str) -> str:
    """A string as Go's %q prints it."""
    if text.isprintable():  # nearly always, and then it is quick however long
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f'"{text.translate(_QUOTED)}"'


@dataclass(frozen=True, slots=True)
class FieldError:
    """One violated rule: where, what was there, and why it will not do."""

    path: str
    reason: str
    message: str
    value: Any = None
    shown: bool = True
    """Whether the value stands in the text."""

    def body(self) -> str:
        head = _FIELD_WORDS[self.reason]
        if self.shown:
            head = f"{head}: {_go_value(self.value)}"
        return f"{head}: {self.message}" if self.message else head

    def text(self) -> str:
        return f"{self.path}: {self.body()}"


def within(path: str, errors: list[FieldError]) -> list[FieldError]:
    """Errors of a part, which were found without its path, as errors of the whole.

    For walks that would otherwise build the path of every part, most of which are valid. At most
    as many as are reported.
    """
    out: list[FieldError] = []
    size = 0
    for error in errors:
        if len(out) > MAX_FIELD_ERRORS or size > 2 * _MAX_ERROR_TEXT:
            break
        out.append(replace(error, path=path + error.path))
        size += len(out[-1].path)
    return out


_FIELD_WORDS = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "InternalError": "Internal error",
    "FieldValueTypeInvalid": "Invalid value",
}


def required(path: str, message: str = "") -> FieldError:
    return FieldError(path, "FieldValueRequired", message, shown=False)


def invalid(path: str, value: Any, message: str) -> FieldError:
    return FieldError(path, "FieldValueInvalid", message, value)


def type_invalid(path: str, value: Any, message: str) -> FieldError:
    return FieldError(path, "FieldValueTypeInvalid", message, value)


def forbidden(path: str, message: str) -> FieldError:
    return FieldError(path, "FieldValueForbidden", message, shown=False)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, "FieldValueDuplicate", "", value)


def not_found(path: str, value: Any) -> FieldError:
    return FieldError(path, "FieldValueNotFound", "", value)


def not_supported(path: str, value: Any, valid: Sequence[str]) -> FieldError:
    message = "supported values: " + ", ".join(go_quote(v) for v in valid) if valid else ""
    return FieldError(path, "FieldValueNotSupported", message, value)


def too_long(path: str, max_length: int) -> FieldError:
    unit = "byte" if max_length == 1 else "bytes"
    return FieldError(
        path, "FieldValueTooLong", f"may not be more than {max_length} {unit}", shown=False
    )


def too_many(path: str, actual: int, max_items: int) -> FieldError:
    unit = "item" if max_items == 1 else "items"
    return FieldError(path, "FieldValueTooMany", f"must have at most {max_items} {unit}", actual)
