"""Events exist in two groups and are stored once, in the core group's form."""

from __future__ import annotations

from pykcp.apis.kube.validation.events import FIELD_LABELS_TO_CORE, from_core, to_core
from pykcp.registry.resource import Conversion

FIELD_NAMES = {own: core for own, core in FIELD_LABELS_TO_CORE.items() if own != core}
"""Selectable fields of events.k8s.io, by the names under which they are stored."""

EVENTS_CONVERSION = Conversion(to_core, from_core, FIELD_NAMES)
