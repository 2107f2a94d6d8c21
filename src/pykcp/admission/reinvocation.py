"""Reinvocation: mutating plug-ins run again if later ones changed the object.

At most one more round is made, and only those are asked again that said `IfNeeded` and were
followed by a change. This state exists for a request once a webhook or policy is called.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pykcp.registry import codec
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.types import Object


@dataclass(slots=True)
class Rounds:
    """What one plug-in remembers between the rounds."""

    output: Object | bytes | None = None
    """The object, or its text, as the plug-in left it."""
    waiting: set[str] = field(default_factory=set)
    """Plug-ins that were called and have to be called again if anything changes."""
    due: set[str] = field(default_factory=set)
    """Plug-ins to call in the second round."""

    def changed(self) -> None:
        """Something changed after those in `waiting` were called."""
        self.due |= self.waiting
        self.waiting.clear()


@dataclass(slots=True)
class Reinvocation:
    managed_fields: object
    """The object of the request, before any mutation."""
    is_second: bool = False
    is_wanted: bool = False
    _rounds: dict[str, Rounds] = field(default_factory=dict)

    def enter(self, plugin: str, request: AdmissionRequest) -> Rounds:
        """The plug-in's memory; in the second round others may have changed the object."""
        rounds = self._rounds.setdefault(plugin, Rounds())
        if self.is_second and rounds.waiting and rounds.output != _content(request):
            rounds.changed()
        return rounds


def reinvocation_of(request: AdmissionRequest) -> Reinvocation:
    found = request.reinvocation
    if not isinstance(found, Reinvocation):
        found = request.reinvocation = Reinvocation(request.managed_fields())
    return found


def leave(rounds: Rounds, request: AdmissionRequest) -> None:
    """Remember the object as the plug-in leaves it, if that can matter."""
    if rounds.waiting:
        found = _content(request)
        rounds.output = codec.copy(found) if isinstance(found, dict) else found


def _content(request: AdmissionRequest) -> Object | bytes | None:
    """Something to compare: a large object is not decoded for it."""
    return request.text() if isinstance(request, LargeRequest) else request.obj


def replace_contents(obj: Object, new: Object) -> None:
    """Make `obj` say what `new` says; it and its metadata stay the same objects."""
    metadata, fresh = obj["metadata"], dict(new.get("metadata") or {})
    metadata.clear()
    metadata.update(fresh)
    contents = {**new, "metadata": metadata}
    obj.clear()
    obj.update(contents)
