"""The schemas that a consumer binds, seen from the consumer."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.testing.client import TestClient
from pykcp.testing.exports import SCHEMAS, ExportProvider
from pykcp.testing.server import ServerProcess


def test_schemas_of_all_bindings(shard: ServerProcess, at: Callable[..., TestClient]) -> None:
    """Listed, selected by name, and read one by one; never those of another consumer."""
    provider = ExportProvider(shard, "cowboys", "sheriffs")
    consumer = provider.consumer()
    other = ExportProvider(shard, "horses").consumer()
    view = at(f"/services/apiresourceschema/{consumer.cluster}/clusters/*")
    wanted = {f"today.{plural}.{provider.group}" for plural in ("cowboys", "sheriffs")}
    assert {item["metadata"]["name"] for item in view.get(SCHEMAS).json["items"]} == wanted
    one = min(wanted)
    named = view.get(SCHEMAS, fieldSelector=f"metadata.name={one}").json["items"]
    assert [item["metadata"]["name"] for item in named] == [one]
    assert view.get(SCHEMAS, labelSelector="no=such").json["items"] == []
    assert view.get(f"{SCHEMAS}/{one}").json["spec"]["names"]["plural"] == "cowboys"
    assert at(f"/services/apiresourceschema/{other.cluster}/clusters/*").get(
        f"{SCHEMAS}/{one}"
    ).status == 404  # fmt: skip


def test_schemas_in_other_forms(shard: ServerProcess, at: Callable[..., TestClient]) -> None:
    """As stored objects are: they are read a page at a time, and made by whoever makes lists."""
    provider = ExportProvider(shard, "cowboys", "sheriffs")
    view = at(f"/services/apiresourceschema/{provider.consumer().cluster}/clusters/*")
    one = f"{SCHEMAS}/today.cowboys.{provider.group}"
    whole = view.get(SCHEMAS).json
    assert int(whole["metadata"]["resourceVersion"]) > 0
    assert {item["kind"] for item in whole["items"]} <= {"APIResourceSchema"}
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    for path, rows in ((SCHEMAS, 2), (one, 1)):
        shown = view.request("GET", path, headers=table).json
        assert (shown["kind"], len(shown["rows"])) == ("Table", rows)
        text = view.request("GET", path, headers={"Accept": "application/yaml"}).body
        assert b"kind: APIResourceSchema" in text
    assert view.get(one).json["metadata"]["uid"] in {i["metadata"]["uid"] for i in whole["items"]}
