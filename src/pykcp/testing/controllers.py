"""What the controllers of a server are about, seen from outside."""

from __future__ import annotations

import re

from pykcp.testing.client import TestClient

_FEED = "feed"


def controller_tasks(shard: TestClient) -> list[str]:
    """Names of the controllers' tasks; the client must be in no logical cluster."""
    told = shard.get("/debug/tasks").body.decode()
    return sorted(re.findall(r"^  controllers?/(\S+)", told, re.MULTILINE))


def queues(shard: TestClient) -> dict[str, float]:
    """How many keys wait, are worked on or come later, by metric and controller."""
    pattern = r"^(?:workqueue_depth|pykcp_workqueue_running|pykcp_workqueue_delayed)\{.*$"
    lines = re.findall(pattern, shard.get("/metrics").body.decode(), re.MULTILINE)
    return {line.split()[0]: float(line.split()[1]) for line in lines}


def has_nothing_to_do(shard: TestClient) -> bool:
    """Whether everything that was, is worked off: the log is read, and all queues are empty."""
    return _FEED not in controller_tasks(shard) and not any(queues(shard).values())
