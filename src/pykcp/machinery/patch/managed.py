"""managedFields as a table of managers and their fields: parsing, encoding, limiting, validating.

A manager is known by its name, its operation, its subresource and, for updates, the
version it wrote in: one who applies in another version is still the same. The time of an
entry says when its set last changed and is no part of who it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pykcp.machinery.patch import fieldsv1
from pykcp.machinery.patch.elements import scalar_text
from pykcp.machinery.patch.fieldset import Fields, union_all
from pykcp.machinery.status import FieldError, go_quote, invalid, too_long
from pykcp.types import JSON, Object

MAX_UPDATE_MANAGERS: Final = 10
MAX_MANAGER_LENGTH: Final = 128
MAX_SUBRESOURCE_LENGTH: Final = 256
ANCIENT: Final = "ancient-changes"
"""Who owns what the oldest updaters owned, once there are too many of them."""


class BadManagedFields(ValueError):
    """A list of managedFields that cannot be read; the message is upstream's."""


class Identity(NamedTuple):
    """Who a manager is."""

    manager: str
    operation: str
    api_version: str
    """Empty for Apply."""
    subresource: str

    @property
    def applies(self) -> bool:
        return self.operation == "Apply"

    def text(self) -> str:
        """The identity as upstream spells it, which is what managers are sorted by."""
        parts = [
            f'"{name}":{scalar_text(value)}'
            for name, value in (
                ("manager", self.manager),
                ("operation", self.operation),
                ("apiVersion", self.api_version),
                ("subresource", self.subresource),
            )
            if value
        ]
        return "{" + ",".join(parts) + "}"

    def shown(self) -> str:
        """The manager in a conflict's message."""
        text = go_quote(self.manager)
        if self.subresource:
            text += f" with subresource {go_quote(self.subresource)}"
        return text if self.applies else f"{text} using {self.api_version}"


def identify(manager: str, operation: str, api_version: str, subresource: str) -> Identity:
    """The identity of one who writes."""
    version = "" if operation == "Apply" else api_version
    return Identity(manager or "unknown", operation, version, subresource)


class ManagedEntry(NamedTuple):
    """What one manager owns."""

    fields: Fields
    api_version: str
    """The version that the fields are of."""
    time: str = ""
    stored: Object | None = None
    """The entry as it was read, to be written back as it is while nothing changes."""

    def with_fields(self, fields: Fields) -> ManagedEntry:
        """The entry with another set; itself if the set is the same one."""
        return self if fields is self.fields else self._replace(fields=fields, stored=None)


Managers = dict[Identity, ManagedEntry]


def read_trusted(entries: Iterable[Object]) -> Managers:
    """The table of a list that we wrote ourselves."""
    out: Managers = {}
    for entry in entries:
        version = entry["apiVersion"]
        who = Identity(
            entry.get("manager", ""),
            entry["operation"],
            "" if entry["operation"] == "Apply" else version,
            entry.get("subresource", ""),
        )
        out[who] = ManagedEntry(
            entry.get("fieldsV1") or {}, version, entry.get("time") or "", entry
        )
    return out


def read(entries: JSON) -> Managers:
    """The table of a list that a client or an admission plug-in wrote."""
    out: Managers = {}
    if not isinstance(entries, list):
        raise BadManagedFields("managed fields are not a list")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise BadManagedFields(f"entry {index} is not an object")
        operation = entry.get("operation")
        if operation not in ("Apply", "Update"):
            raise BadManagedFields("operation must be `Apply` or `Update`")
        version = entry.get("apiVersion")
        if not isinstance(version, str) or not version:
            raise BadManagedFields("apiVersion must not be empty")
        fields_type = entry.get("fieldsType") or ""
        if not fields_type:
            raise BadManagedFields(f"missing fieldsType in managed fields entry {index}")
        if fields_type != "FieldsV1":
            shown = go_quote(str(fields_type))
            raise BadManagedFields(f"invalid fieldsType {shown} in managed fields entry {index}")
        try:
            fields = fieldsv1.parse(entry.get("fieldsV1"))
        except fieldsv1.BadFields as error:
            raise BadManagedFields(
                f"error decoding versioned set from entry {index}: error decoding set: {error}"
            ) from error
        who = Identity(
            str(entry.get("manager") or ""),
            operation,
            "" if operation == "Apply" else version,
            str(entry.get("subresource") or ""),
        )
        out[who] = ManagedEntry(fields, version, _normal_time(entry.get("time")))
    return out


def _normal_time(time: JSON) -> str:
    """A time as we write it: UTC, whole seconds."""
    if not time:
        return ""
    try:
        moment = datetime.fromisoformat(time)
    except (TypeError, ValueError) as error:
        raise BadManagedFields(f"cannot parse time {time!r}") from error
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write(managers: Managers) -> list[Object]:
    """The list that is stored and served, in order."""
    order = sorted(managers.items(), key=_write_order) if len(managers) > 1 else managers.items()
    return [entry.stored or _entry_json(who, entry) for who, entry in order]


def _write_order(item: tuple[Identity, ManagedEntry]) -> tuple[str, ...]:
    who, entry = item
    return who.operation, entry.time, who.manager, entry.api_version, who.subresource


def _entry_json(who: Identity, entry: ManagedEntry) -> Object:
    out: Object = {"manager": who.manager} if who.manager else {}
    out["operation"] = who.operation
    out["apiVersion"] = entry.api_version
    if entry.time:
        out["time"] = entry.time
    out["fieldsType"] = "FieldsV1"
    out["fieldsV1"] = entry.fields
    if who.subresource:
        out["subresource"] = who.subresource
    return out


def is_reset(entries: JSON) -> bool:
    """Whether a client asks to forget who owns what: an empty list, or one empty entry."""
    return isinstance(entries, list) and (not entries or (len(entries) == 1 and not entries[0]))


def cap_updaters(managers: Managers, limit: int = MAX_UPDATE_MANAGERS) -> Managers:
    """At most `limit` updaters: the oldest of one version become one."""
    updaters = [who for who in managers if not who.applies]
    if len(updaters) <= limit:
        return managers
    out = dict(managers)
    updaters.sort(key=lambda who: (out[who].time, who.text()))
    count = len(updaters)
    first_of: dict[str, Identity] = {}
    parts: dict[Identity, list[Fields]] = {}
    for who in updaters:
        if count <= limit:
            break
        entry = out[who]
        first = first_of.setdefault(entry.api_version, who)
        if first is who:
            continue
        bucket = Identity(ANCIENT, "Update", entry.api_version, "")
        if bucket not in out:
            out[bucket] = out.pop(first)
        parts.setdefault(bucket, [out[bucket].fields]).append(entry.fields)
        out[bucket] = ManagedEntry({}, entry.api_version, entry.time)
        if bucket == who:
            # When the bucket is not the oldest and its turn comes, it goes: upstream's doing.
            del parts[bucket]
        del out[who]
        count -= 1
    for bucket, sets in parts.items():
        out[bucket] = out[bucket].with_fields(union_all(sets))
    return out


def validate(entries: JSON, path: str = "metadata.managedFields") -> list[FieldError]:
    """What is wrong with managedFields as part of an object's metadata (422)."""
    errors: list[FieldError] = []
    for index, entry in enumerate(entries or ()):
        here = f"{path}[{index}]"
        operation = entry.get("operation", "")
        if operation not in ("Apply", "Update"):
            errors.append(invalid(f"{here}.operation", operation, "must be `Apply` or `Update`"))
        fields_type = entry.get("fieldsType", "")
        if fields_type and fields_type != "FieldsV1":
            errors.append(invalid(f"{here}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors.extend(validate_manager(entry.get("manager") or "", f"{here}.manager"))
        if len((entry.get("subresource") or "").encode()) > MAX_SUBRESOURCE_LENGTH:
            errors.append(too_long(f"{here}.subresource", MAX_SUBRESOURCE_LENGTH))
    return errors


def validate_manager(manager: str, path: str = "fieldManager") -> list[FieldError]:
    """What is wrong with the name of a field manager: its length, its characters."""
    errors: list[FieldError] = []
    if len(manager.encode("utf-8", "surrogatepass")) > MAX_MANAGER_LENGTH:
        errors.append(too_long(path, MAX_MANAGER_LENGTH))
    position = 0
    for char in manager:
        if not char.isprintable():
            shown = f"U+{ord(char):04X}"
            errors.append(
                invalid(path, manager, f"invalid character {shown} (at position {position})")
            )
        position += len(char.encode("utf-8", "surrogatepass"))
    return errors


def manager_of(user_agent: str) -> str:
    """The manager of a client that names none: its agent's name, cut to what may be stored."""
    out = ""
    for char in user_agent.partition("/")[0]:
        if not char.isprintable():
            continue
        if len((out + char).encode()) > MAX_MANAGER_LENGTH:
            break
        out += char
    return out
