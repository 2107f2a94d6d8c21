"""A provider's operator with kopf, run by its test: every cowboy gets a status.

kopf signs in at the address that the export's endpoint slice says, so one watch follows all
consumers. What it sees it does not change itself, since nothing can be written over all
consumers at once: the handler writes into the consumer's workspace that the object names.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import kopf
from kubernetes import client, config, watch
from kubernetes.client import ApiException

GROUP, EXPORT = os.environ["TEST_GROUP"], os.environ["TEST_EXPORT"]
config.load_kube_config()


def endpoint() -> str:
    """Waits until somebody binds the export: then there is an address."""
    slices = ("apis.kcp.io", "v1alpha1", "apiexportendpointslices")
    workspace = client.CustomObjectsApi()
    for event in watch.Watch().stream(workspace.list_cluster_custom_object, *slices):
        found = event["object"]
        endpoints = (found.get("status") or {}).get("endpoints") or ()
        if found["metadata"]["name"] == EXPORT and endpoints:
            return str(endpoints[0]["url"])
    raise AssertionError("the watch ended")


URL = endpoint()


@kopf.on.login()
def sign_in(**words: Any) -> kopf.ConnectionInfo:
    found = kopf.login_with_kubeconfig(**words)
    assert found is not None
    return dataclasses.replace(found, server=f"{URL}/clusters/*")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.scanning.disabled = True


@kopf.on.event(GROUP, "v1", "cowboys")
def seen(event: kopf.RawEvent, body: kopf.Body, **_: Any) -> None:
    wanted = {"hat": body.spec.get("hat", "none")}
    if event["type"] == "DELETED" or dict(body.status) == wanted:
        return
    settings = client.Configuration.get_default_copy()
    settings.host = f"{URL}/clusters/{body.metadata.annotations['kcp.io/cluster']}"
    settings.refresh_api_key_hook = None  # it would set the host back
    consumer = client.CustomObjectsApi(client.ApiClient(settings))
    try:
        consumer.patch_namespaced_custom_object_status(
            GROUP,
            "v1",
            body.metadata.namespace,
            "cowboys",
            body.metadata.name,
            {"status": wanted},
        )
    except ApiException as error:
        if error.status not in (403, 404):  # the consumer has just gone
            raise
