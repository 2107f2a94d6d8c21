"""The finalizer of a binding, which remains until its bound objects are deleted."""

from __future__ import annotations

from pykcp.admission.plugins.kcp.finalizer import KeptFinalizer
from pykcp.machinery.resources import API_BINDINGS

FINALIZER = "apis.kcp.io/apibinding-finalizer"


class APIBindingDeletionFinalizer(KeptFinalizer):
    def __init__(self) -> None:
        super().__init__("apis.kcp.io/APIBindingDeletionFinalizer", API_BINDINGS, FINALIZER)
