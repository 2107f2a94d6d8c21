"""client-go and controller-runtime, each a program under `go/`."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

PROGRAMS = {
    "typed": ["application/json", "application/vnd.kubernetes.protobuf"],
    "dynamic": ["discovery", "dynamic", "metadata"],
    "informers": ["application/json", "application/vnd.kubernetes.protobuf"],
    "leader": ["leader election"],
    "manager": [
        "the child is made",
        "the child follows",
        "the child is made again",
        "parent is gone",
        "parent-child is gone",
        "manager",
    ],
}


@pytest.mark.parametrize(("program", "steps"), PROGRAMS.items(), ids=PROGRAMS)
def test_everyday_work(
    program: str, steps: list[str], go_clients: pathlib.Path, run_client: Callable[..., str]
) -> None:
    """Each program ends well and has passed its steps in order."""
    printed = run_client(str(go_clients / program))
    assert printed.splitlines() == [f"done: {step}" for step in steps]


def test_informers_without_streaming_lists(
    go_clients: pathlib.Path, run_client: Callable[..., str]
) -> None:
    """A client that lists and then watches, as older ones do, sees the same."""
    printed = run_client(str(go_clients / "informers"), KUBE_FEATURE_WatchListClient="false")
    assert printed.splitlines() == [f"done: {step}" for step in PROGRAMS["informers"]]
