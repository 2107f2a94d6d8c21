"""An operator with `kopf`, run by its test: it follows ConfigMaps labelled app=kopf.

What it does shows on the objects: the annotation `pykcp.test/seen` tells what was handled last, kopf
keeps the state it compares with in an annotation and holds objects with a finalizer until the
handler of their deletion has run, which leaves a ConfigMap behind.
"""

from __future__ import annotations

from typing import Any

import kopf
from kubernetes import client, config

config.load_kube_config()
LABELS = {"app": "kopf"}


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.persistence.finalizer = "pykcp.test/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="pykcp.test")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix="pykcp.test")
    settings.posting.enabled = True
    settings.scanning.disabled = False


@kopf.on.create("v1", "configmaps", labels=LABELS)
def created(body: kopf.Body, patch: kopf.Patch, retry: int, **_: Any) -> None:
    if retry == 0:
        raise kopf.TemporaryError("once more, from the progress kept in annotations", delay=0.1)
    patch.metadata.annotations["pykcp.test/seen"] = f"created {body['data']['step']}"
    kopf.event(body, type="Normal", reason="Handled", message="created")


@kopf.on.update("v1", "configmaps", labels=LABELS, field="data")
def updated(old: Any, new: Any, patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["pykcp.test/seen"] = f"updated {old['step']} to {new['step']}"


@kopf.on.delete("v1", "configmaps", labels=LABELS)
def deleted(name: str, namespace: str, **_: Any) -> None:
    client.CoreV1Api().create_namespaced_config_map(
        namespace, {"metadata": {"name": f"{name}-was-deleted"}}
    )
