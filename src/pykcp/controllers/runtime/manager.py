"""A set of controllers on one feed, started together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pykcp.aio.owner import TaskOwner
from pykcp.clients.interface import ShardFeed
from pykcp.controllers.runtime.controller import Controller


class ControllerSpec(Protocol):
    """A controller with what it follows; every file of `controllers` makes one."""

    @property
    def controller(self) -> Controller[Any]: ...

    def follow(self, feed: ShardFeed) -> None: ...


class StartableFeed(ShardFeed, Protocol):
    """A feed that is started by the set of controllers."""

    def start(self) -> None:
        """Start to deliver live changes."""

    def stop(self) -> None:
        """Deliver nothing more, until it is started again."""

    async def run(self) -> None:
        """Deliver the initial changes, then run the `at_start` callbacks."""


@dataclass(frozen=True, slots=True)
class ControllerSet:
    feed: StartableFeed
    controllers: Sequence[Controller[Any]]

    def start(self, owner: TaskOwner) -> None:
        """Hear of everything from now on, and do what is left from before.

        One task per controller; the feed's own ends when the retained log is read.
        """
        self.feed.start()
        for controller in self.controllers:
            owner.start_restartable(f"controller/{controller.name}", controller.run)
        owner.start_restartable("controllers/feed", self.feed.run)

    def named(self, name: str) -> Controller[Any]:
        return next(controller for controller in self.controllers if controller.name == name)


def join(feed: StartableFeed, followers: Sequence[ControllerSpec]) -> ControllerSet:
    """Controllers on one feed."""
    for one in followers:
        one.follow(feed)
    return ControllerSet(feed, [one.controller for one in followers])
