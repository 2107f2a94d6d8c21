"""How exports, bindings and slices find one another."""

import pytest

from pykcp.registry.indexes import apis as api_indexes
from pykcp.registry.indexes.apis import binding_entries, export_entries, slice_entries
from pykcp.types import Object


def _binding(phase: str = "Bound", *, upset: str = "", missing: str = "") -> Object:
    kinds = sorted(
        (
            "Ready",
            "APIExportValid",
            "BindingUpToDate",
            "InitialBindingCompleted",
            "PermissionClaimsApplied",
            "PermissionClaimsValid",
        )
    )
    return {
        "metadata": {"name": "b", "labels": {"internal.apis.kcp.io/export": "hash"}},
        "spec": {
            "permissionClaims": [
                {"resource": "configmaps", "group": "", "state": "Accepted"},
                {"resource": "w", "group": "g", "identityHash": "id", "state": "Accepted"},
                {"resource": "x", "group": "g", "identityHash": "id", "state": "Rejected"},
            ]
        },
        "status": {
            "phase": phase,
            "boundResources": [{"schema": {"UID": "u1"}}, {"schema": {"UID": "u2"}}],
            "conditions": [
                {"type": kind, "status": "False" if kind == upset else "True"}
                for kind in kinds
                if kind != missing
            ],
        },
    }


@pytest.mark.parametrize(
    ("binding", "is_open"),
    [
        (_binding(), False),
        (_binding("Binding"), True),
        (_binding(upset="BindingUpToDate"), True),
        (_binding(missing="PermissionClaimsApplied"), True),
    ],
)
def test_bindings(binding: Object, is_open: bool) -> None:
    entries = tuple(binding_entries("c", binding))
    assert entries[:4] == (
        "binding-of:hash",
        "binding-uid:u1",
        "binding-uid:u2",
        "binding-claim:id:w.g",
    )
    assert (api_indexes.OPEN_BINDINGS in entries) is is_open


def test_exports() -> None:
    export: Object = {
        "metadata": {"name": "e"},
        "spec": {
            "resources": [{"schema": "v1.w.g"}],
            "identity": {"secretRef": {"namespace": "kcp-system", "name": "e"}},
        },
        "status": {"identityHash": "id"},
    }
    found = ("export-schema:c:v1.w.g", "export-secret:c:kcp-system/e", "export-identity:id")
    assert tuple(export_entries("c", export)) == (*found, api_indexes.OPEN_EXPORTS)
    export["status"]["conditions"] = [{"type": "IdentityValid", "status": "True"}]
    assert tuple(export_entries("c", export)) == found


def test_slices() -> None:
    near: Object = {"metadata": {"name": "s"}, "spec": {"export": {"name": "e"}}}
    far: Object = {
        "metadata": {"name": "s"},
        "spec": {"export": {"name": "e", "path": "root:org"}, "partition": "p"},
    }
    assert tuple(slice_entries("c", near)) == ("slice-of:c:e",)
    assert tuple(slice_entries("c", far)) == ("slice-of:root:org:e", "slice-partition:c:p")
