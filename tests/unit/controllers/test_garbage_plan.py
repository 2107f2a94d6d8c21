"""What the collector decides about one object, as a table."""

from __future__ import annotations

import pytest

from pykcp.controllers.kube.garbage_plan import (
    Dependents,
    Keep,
    Owner,
    OwnerState,
    Remove,
    Step,
    Unreference,
    WaitForKind,
    blocks,
    plan,
    state_of_owner,
    waits_for_dependents,
)
from pykcp.machinery.metadata import Metadata, OwnerReference

SOLID, ABSENT, WAITING = OwnerState.SOLID, OwnerState.ABSENT, OwnerState.WAITING
UNKNOWN, IMPOSSIBLE = OwnerState.UNKNOWN, OwnerState.IMPOSSIBLE
NONE, SOME, SOME_WAITING = Dependents.NONE, Dependents.SOME, Dependents.SOME_WAITING


def _gone(*numbers: int) -> Unreference:
    return Unreference(frozenset(f"uid{n}" for n in numbers))


@pytest.mark.parametrize(
    ("states", "dependents", "finalizers", "step"),
    [
        pytest.param([], NONE, (), Keep(), id="no-owner"),
        pytest.param([SOLID], NONE, (), Keep(), id="one-owner"),
        pytest.param([SOLID, SOLID], SOME, (), Keep(), id="two-owners"),
        pytest.param([ABSENT], NONE, (), Remove("Background"), id="absent"),
        pytest.param([ABSENT, ABSENT], SOME, (), Remove("Background"), id="all-absent"),
        pytest.param([ABSENT], NONE, ("orphan",), Remove("Orphan"), id="orphan-honoured"),
        pytest.param(
            [ABSENT], NONE, ("foregroundDeletion",), Remove("Foreground"), id="foreground-honoured"
        ),
        pytest.param([ABSENT], NONE, ("x/y",), Remove("Background"), id="other-finalizer"),
        pytest.param([SOLID, ABSENT], NONE, (), _gone(1), id="one-of-two-gone"),
        pytest.param([WAITING, SOLID, ABSENT], SOME, (), _gone(0, 2), id="waiting-and-gone"),
        pytest.param([WAITING], NONE, (), Remove("Background"), id="waiting-leaf"),
        pytest.param([WAITING], SOME, (), Remove("Foreground"), id="waiting-with-dependents"),
        pytest.param(
            [WAITING, ABSENT],
            SOME_WAITING,
            (),
            Remove("Foreground", unblocks_owners=True),
            id="waiting-in-a-circle",
        ),
        pytest.param([ABSENT], SOME_WAITING, (), Remove("Background"), id="absent-no-circle"),
        pytest.param([UNKNOWN, ABSENT], NONE, (), WaitForKind(), id="unknown-kind"),
        pytest.param([SOLID, UNKNOWN], NONE, (), WaitForKind(), id="unknown-beside-solid"),
        pytest.param([IMPOSSIBLE], NONE, (), Keep(), id="namespaced-owner-of-cluster-scoped"),
        pytest.param([ABSENT, IMPOSSIBLE], NONE, (), Keep(), id="impossible-decides-nothing"),
    ],
)
def test_plan(
    states: list[OwnerState], dependents: Dependents, finalizers: tuple[str, ...], step: Step
) -> None:
    owners = [Owner(OwnerReference(f"uid{n}"), state) for n, state in enumerate(states)]
    assert plan(Metadata("x", "own", finalizers=finalizers), owners, dependents) == step


@pytest.mark.parametrize(
    ("owner", "state"),
    [
        pytest.param(None, ABSENT, id="none"),
        pytest.param(Metadata("o", "u2"), ABSENT, id="another-uid"),
        pytest.param(Metadata("o", "u1"), SOLID, id="there"),
        pytest.param(Metadata("o", "u1", deletion_timestamp="t"), SOLID, id="deleting"),
        pytest.param(
            Metadata("o", "u1", finalizers=("foregroundDeletion",)), SOLID, id="only-finalizer"
        ),
        pytest.param(
            Metadata("o", "u1", deletion_timestamp="t", finalizers=("a/b", "foregroundDeletion")),
            WAITING,
            id="waiting",
        ),
    ],
)
def test_state_of_owner(owner: Metadata | None, state: OwnerState) -> None:
    assert state_of_owner(OwnerReference("u1"), owner) is state


def test_only_a_blocking_reference_to_that_owner_blocks() -> None:
    item = Metadata(
        "x",
        "own",
        owner_references=(
            OwnerReference("blocking", block_owner_deletion=True),
            OwnerReference("not", block_owner_deletion=False),
            OwnerReference("silent"),
        ),
    )
    assert [blocks(item, uid) for uid in ("blocking", "not", "silent", "other")] == [
        True, False, False, False,
    ]  # fmt: skip
    assert not waits_for_dependents(item)
