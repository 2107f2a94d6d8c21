"""An initializer and a terminator with the official client, run by their test.

Each finds its address in the status of the workspace type, follows the logical clusters that
wait for it, does something in them, and takes itself off the list.
"""

from __future__ import annotations

import os
from typing import Any

from kubernetes import client, config, watch

TYPE, END = os.environ["TEST_TYPE"], os.environ["TEST_END"]
FIELD = "initializers" if END == "initializing" else "terminators"
CLUSTERS = ("core.kcp.io", "v1alpha1", "logicalclusters")


def at(url: str, cluster: str) -> client.ApiClient:
    settings = client.Configuration.get_default_copy()
    settings.host = f"{url}/clusters/{cluster}"
    settings.refresh_api_key_hook = None  # it would set the host back
    return client.ApiClient(settings)


def address() -> str:
    types = ("tenancy.kcp.io", "v1alpha1", "workspacetypes")
    here = client.CustomObjectsApi()
    for event in watch.Watch().stream(here.list_cluster_custom_object, *types):
        found = event["object"]
        for one in (found.get("status") or {}).get("virtualWorkspaces") or ():
            if found["metadata"]["name"] == TYPE and one["type"] == END:
                return str(one["url"])
    raise AssertionError("the watch ended")


def work_on(url: str, found: dict[str, Any]) -> None:
    cluster = found["metadata"]["annotations"]["kcp.io/cluster"]
    own, waiting = f"root:{TYPE}", found["status"].get(FIELD) or []
    if own not in waiting:
        return
    if END == "initializing":
        name = client.V1ObjectMeta(name="prepared")
        client.CoreV1Api(at(url, cluster)).create_namespace(client.V1Namespace(metadata=name))
    rest = [one for one in waiting if one != own]
    client.CustomObjectsApi(at(url, cluster)).patch_cluster_custom_object_status(
        *CLUSTERS, "cluster", {"status": {FIELD: rest}}
    )


def main() -> None:
    config.load_kube_config()
    url = address()
    everywhere = client.CustomObjectsApi(at(url, "*"))
    for event in watch.Watch().stream(everywhere.list_cluster_custom_object, *CLUSTERS):
        if event["type"] != "DELETED":
            work_on(url, event["object"])


main()
