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
