"""Processes that are killed while objects come, change and go."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from pykcp.testing.client import TestClient
from pykcp.testing.multicluster.syncers import deployment

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class Victim(Protocol):
    """A server or a program."""

    def kill(self) -> None: ...

    def start(self) -> object: ...


def kills(
    workspace: TestClient, cluster: str, victims: Sequence[Victim], points: int, seed: int
) -> Iterator[Victim]:
    """Changes objects, kills one of the processes at a random point and starts it again, so many
    times; yields after each.
    """
    chance = random.Random(seed)  # noqa: S311  # no secret
    for point in range(points):
        for number in range(3):
            body = deployment(f"w-{point}-{number}", cluster, replicas=number)
            made = workspace.post(DEPLOYMENTS, body)
            assert made.status == 201, made
        if point:
            workspace.delete(f"{DEPLOYMENTS}/w-{point - 1}-0")
            scaled = {"spec": {"replicas": 7}}
            workspace.patch(f"{DEPLOYMENTS}/w-{point - 1}-1", scaled)
        time.sleep(chance.random() * 0.4)  # the point is what is random here
        victim = chance.choice(victims)
        victim.kill()
        victim.start()
        workspace.drop()
        yield victim
