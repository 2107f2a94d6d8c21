"""Reads the kinds files that ship with the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pykcp.machinery.schema.library import Library
from pykcp.machinery.schema.model import Schema

_HERE = Path(__file__).parent


def read_kinds(path: str) -> str:
    """The text of `kube/core_v1` and its like."""
    return (_HERE / f"{path}.kinds").read_text(encoding="utf-8")


@cache
def library() -> Library:
    """The one library of built-in types; it reads each file once, when first needed."""
    return Library(read_kinds)


_SHARED_FILES = {
    "io.k8s.apimachinery.pkg.apis.meta.v1": "kube/meta_v1",
    "io.k8s.apimachinery.pkg.version": "kube/version",
    "io.k8s.api.autoscaling.v1": "kube/autoscaling_v1",
    "io.k8s.api.authentication.v1": "kube/authentication_v1",
    "io.k8s.api.core.v1": "kube/core_v1",
    "io.k8s.api.policy.v1": "kube/policy_v1",
}


def shared_type(component: str) -> Schema:
    """A type that documents need whatever kinds they describe, by its full name."""
    prefix, _, name = component.rpartition(".")
    return library().kind(_SHARED_FILES[prefix], name)
