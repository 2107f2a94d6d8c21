"""A provider's controller with the official client, run by its test: every cowboy gets a status.

It finds the address of its consumers in the export's endpoint slice, follows all of them with
one watch, and writes into each consumer's workspace by the annotation that says whose an
object is. Consumers come and go while it runs.
"""

from __future__ import annotations

import os
from typing import Any

from kubernetes import client, config, watch
from kubernetes.client import ApiException

GROUP, EXPORT = os.environ["TEST_GROUP"], os.environ["TEST_EXPORT"]
OBJECTS = (GROUP, "v1")


def at(url: str, cluster: str) -> client.CustomObjectsApi:
    """The same credentials, at the view of one consumer or of all."""
    settings = client.Configuration.get_default_copy()
    settings.host = f"{url}/clusters/{cluster}"
    settings.refresh_api_key_hook = None  # it would set the host back
    return client.CustomObjectsApi(client.ApiClient(settings))


def endpoint() -> str:
    """Waits until somebody binds the export: then there is an address."""
    here = client.CustomObjectsApi()
    slices = ("apis.kcp.io", "v1alpha1", "apiexportendpointslices")
    for event in watch.Watch().stream(here.list_cluster_custom_object, *slices):
        found = event["object"]
        endpoints = (found.get("status") or {}).get("endpoints") or ()
        if found["metadata"]["name"] == EXPORT and endpoints:
            return str(endpoints[0]["url"])
    raise AssertionError("the watch ended")


def reconcile(url: str, cowboy: dict[str, Any]) -> None:
    metadata = cowboy["metadata"]
    wanted = {"hat": cowboy.get("spec", {}).get("hat", "none")}
    if cowboy.get("status") == wanted:
        return
    cluster = metadata["annotations"]["kcp.io/cluster"]
    try:
        at(url, cluster).patch_namespaced_custom_object_status(
            *OBJECTS, metadata["namespace"], "cowboys", metadata["name"], {"status": wanted}
        )
    except ApiException as error:
        if error.status not in (403, 404):  # the consumer has just gone
            raise


def main() -> None:
    config.load_kube_config()
    url = endpoint()
    everywhere = at(url, "*")
    version = ""
    while True:
        try:
            for event in watch.Watch().stream(
                everywhere.list_custom_object_for_all_namespaces,
                *OBJECTS,
                "cowboys",
                resource_version=version,
            ):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "DELETED":
                    reconcile(url, event["object"])
        except ApiException as error:
            if error.status != 410:
                raise
            version = ""


main()
