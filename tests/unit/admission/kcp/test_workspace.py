"""What may become of a workspace, in tables."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.admission.plugins.kcp.workspace import bad_change, bad_creation, owner_text
from pykcp.auth.user import User
from pykcp.types import Object

T1, T2 = {"name": "a", "path": "root"}, {"name": "b", "path": "root"}
REF = {"apiVersion": "v1", "kind": "Cluster", "name": "prod"}
MOUNT = {"ref": REF}
BY_SYSTEM = "can only be changed by system privileged users"


def ws(phase: str = "Scheduling", **spec: Any) -> Object:
    return {"metadata": {"name": "w"}, "spec": spec, "status": {"phase": phase}}


def other(**changes: str) -> Object:
    return {"ref": {**REF, **changes}}


@pytest.mark.parametrize(
    ("old", "new", "is_system", "why"),
    [
        (ws(type=T1), ws(type=T1), False, None),
        (ws(cluster="c"), ws(), True, "spec.cluster cannot be unset"),
        (ws(), ws(cluster="c"), False, f"spec.cluster {BY_SYSTEM}"),
        (ws(), ws(cluster="c"), True, None),
        (ws(), ws(URL="u"), False, f"spec.URL {BY_SYSTEM}"),
        (
            ws(type=T1),
            ws(type=T2),
            True,
            'spec.type: Invalid value: {"name":"b","path":"root"}: field is immutable',
        ),
        (ws(), ws("Ready"), True, "spec.cluster must be set for phase Ready"),
        (ws(cluster="c"), ws("Ready", cluster="c"), True, "spec.URL must be set for phase Ready"),
        (ws(cluster="c", URL="u"), ws("Ready", cluster="c", URL="u"), True, None),
        (ws(mount=MOUNT), ws("Ready", mount=MOUNT), True, None),
        (ws(mount=MOUNT), ws(mount=MOUNT, URL="u"), False, None),
        (ws(mount=MOUNT), ws(), True, "spec.mount.kind is immutable"),
        (ws(mount=MOUNT), ws(mount=other(name="x")), True, "spec.mount.name is immutable"),
        (
            ws(mount=MOUNT),
            ws(mount=other(namespace="x")),
            True,
            "spec.mount.namespace is immutable",
        ),
        (
            ws(mount=MOUNT),
            ws(mount=other(apiVersion="x")),
            True,
            "spec.mount.apiVersion is immutable",
        ),
        (
            ws(mount=MOUNT),
            ws(mount=MOUNT, type=T1),
            False,
            "spec.type cannot be set for mounted workspaces",
        ),
        (ws(mount=MOUNT, type=T1), ws(mount=MOUNT), False, "spec.type is immutable"),
        (ws(mount=MOUNT), ws(mount=MOUNT, type=T1), True, None),
    ],
)
def test_changes(old: Object, new: Object, is_system: bool, why: str | None) -> None:
    assert bad_change(new, old, is_system=is_system) == why


@pytest.mark.parametrize(
    ("given", "is_system", "why"),
    [
        (ws(type=T1), False, None),
        (ws(mount=MOUNT), False, None),
        (ws(mount={}), False, "spec.mount.kind must be set"),
        (ws(mount=other(name="")), True, "spec.mount.name must be set"),
        (ws(mount=other(apiVersion="")), True, "spec.mount.apiVersion must be set"),
        (ws(mount=MOUNT, type=T1), False, "spec.type cannot be set for mounted workspaces"),
        (ws(mount=MOUNT, type=T1), True, None),
    ],
)
def test_creations(given: Object, is_system: bool, why: str | None) -> None:
    assert bad_creation(given, is_system=is_system) == why


def test_the_owner_is_written_as_go_writes_it() -> None:
    user = User("a<b>&c", "1", ("g",), {"z": ("1",), "a": ("2", "3")})
    assert owner_text(user) == (
        '{"username":"a\\u003cb\\u003e\\u0026c","uid":"1","groups":["g"],'
        '"extra":{"a":["2","3"],"z":["1"]}}'
    )
