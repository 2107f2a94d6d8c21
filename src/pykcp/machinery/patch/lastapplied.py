"""kubectl's own record of what it applied, from before servers kept one.

`kubectl apply` without `--server-side` keeps the last configuration in an annotation and
owns its fields as an updater. When the same user moves to server-side apply, as manager
`kubectl`, fields that still are as last applied are theirs and no conflict; and while the
annotation is there it is kept up to date, so that they can move back.
"""

from __future__ import annotations

from typing import Final

from pykcp.machinery.patch import checking, gojson, ownership
from pykcp.machinery.patch.conflicts import ApplyConflicts
from pykcp.machinery.patch.fieldset import Fields, difference
from pykcp.machinery.patch.shapes import MapShape, Untypable
from pykcp.types import JSON, Object

KUBECTL: Final = "kubectl"
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATION_BYTES: Final = 256 * 1024


def excused(
    conflicts: ApplyConflicts, shape: MapShape, live: Object, api_version: str
) -> ApplyConflicts:
    """The conflicts that remain when those about last-applied fields are forgiven."""
    allowed = _still_as_applied(shape, live, api_version)
    return ApplyConflicts({w: difference(fields, allowed) for w, fields in conflicts.sets.items()})


def _still_as_applied(shape: MapShape, live: Object, api_version: str) -> Fields:
    """The fields of the annotation whose values are in the object; none if it is unusable."""
    try:
        last = gojson.decode(annotation_of(live).encode())
    except gojson.BadJSON:
        return {}
    if not isinstance(last, dict) or not last.get("kind") or last.get("apiVersion") != api_version:
        return {}
    try:
        checking.check(shape, live, allow_duplicates=False)
        checking.check(shape, last, allow_duplicates=False)
    except Untypable:
        return {}
    changed, removed = shape.compare(last, live) or (None, None)
    claims = ownership.claimed(shape, last)
    return difference(difference(claims, changed or {}), removed or {})


def annotation_of(obj: Object) -> str:
    """The annotation, or nothing."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    value = annotations.get(ANNOTATION, "")
    return value if isinstance(value, str) else ""


def refreshed(obj: Object, config: Object) -> Object:
    """The object with a configuration in its annotation, if it has that annotation at all."""
    if not annotation_of(obj):
        return obj
    annotations = {**obj["metadata"]["annotations"], ANNOTATION: _text(config)}
    size = sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        del annotations[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _text(config: Object) -> str:
    """A configuration as Go prints it: sorted, HTML escaped, a newline at the end."""
    metadata = dict(config.get("metadata") or {})
    if "annotations" in metadata:
        given = metadata["annotations"] or {}
        metadata["annotations"] = {k: v for k, v in given.items() if k != ANNOTATION}
    text = gojson.encode(_sorted({**config, "metadata": metadata})).decode()
    for char in "<>&\u2028\u2029":
        if char in text:
            text = text.replace(char, f"\\u{ord(char):04x}")
    return text + "\n"


def _sorted(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
