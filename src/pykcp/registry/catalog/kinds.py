"""The interface between the registry's verbs and kinds.

Built-in kinds answer with typed decoding and hand-written rules, CRDs with their
structural schema; the verbs do not see which.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from pykcp.apis.kube.validation.rules import Facts
from pykcp.machinery.status import FieldError
from pykcp.types import Object

Verdict: TypeAlias = tuple[list[FieldError], list[str]]
"""Errors, and warnings. Violations that are forgiven because they are old are warnings, too."""


class Kind(Protocol):
    create_on_update: bool
    """A PUT of something missing creates it."""
    unconditional_update: bool
    """A PUT without a resource version overwrites whatever is there."""

    def decode(self, obj: Object, problems: list[str], raw: bytes | None = None) -> Object:
        """The object as the kind knows it: typed, unknown fields dropped, defaults filled in.

        Unknown fields, and repeated ones if the text is given, are added to `problems` in
        upstream's words; BadRequest if a value has the
        wrong type.
        """

    def decode_applied(self, obj: Object) -> Object:
        """The same for what an apply made: nulls that custom kinds do not allow stay in it."""

    def before_create(self, obj: Object, facts: Facts) -> Verdict:
        """Prepare a named object (drop status, set the generation) and judge it."""

    def before_update(self, new: Object, old: Object, subresource: str, facts: Facts) -> Verdict:
        """Keep what this subresource may not change, and judge the rest."""

    def settle(self, obj: Object) -> None:
        """Bring an admitted object into the form in which storage gives it back."""

    def selectable(self, obj: Object) -> dict[str, str]:
        """The values of the kind's own selectable fields."""

    def manage_update(
        self, live: Object | None, new: Object, manager: str, subresource: str, now: str
    ) -> None:
        """Set `new`'s managedFields after a create, update or patch by `manager`."""

    def forget_unfit(self, live: Object, new: Object, subresource: str) -> bool:
        """Forget managers if the live object no longer fits its schema; True if that was so."""

    def manage_apply(
        self,
        live: Object | None,
        applied: Object,
        manager: str,
        subresource: str,
        now: str,
        *,
        force: bool,
    ) -> Object:
        """Merge an applied configuration into the live object; Conflict if others own its fields."""
