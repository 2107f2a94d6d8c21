"""How filters are put around a handler."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykcp.machinery.status import Forbidden, NotFound, StatusError
from pykcp.server.call import Call, Handler, Pending
from pykcp.server.chain import compose
from pykcp.server.filters.authentication import RequireUser
from pykcp.server.filters.authorization import RequirePermission
from pykcp.server.filters.clusters import ExistingCluster, FindCluster, HiddenDenial
from pykcp.server.request_info import parse


def _call() -> Call:
    return Call(cast("Any", None), parse("GET", "/clusters/one/api/v1/pods", ""))


class _Named:
    """Writes down when it passes a call on, and when it has it back."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self._name, self._seen = name, seen

    def around(self, inner: Handler) -> Handler:
        def handle(call: Call) -> Pending:
            self._seen.append(self._name)
            pending = inner(call)
            self._seen.append(f"/{self._name}")
            return pending

        return handle


def test_the_first_filter_meets_a_call_first() -> None:
    seen: list[str] = []
    filters = [_Named("a", seen), None, _Named("b", seen)]
    assert compose(filters, lambda _: seen.append("handler"))(_call()) is None
    assert seen == ["a", "b", "handler", "/b", "/a"]


class _Authorization:
    """Knows its decision at once, or has to be waited for."""

    def __init__(self, *, at_once: bool) -> None:
        self._at_once = at_once

    def peek(self, call: Call) -> bool:
        return self._at_once

    async def check(self, call: Call) -> None:
        if call.info.verb != "list":
            raise Forbidden("no")

    async def check_create(self, call: Call) -> None: ...


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_call_is_answered_at_once_only_if_nothing_has_to_wait(at_once: bool) -> None:
    handled: list[Call] = []
    handler = RequirePermission(_Authorization(at_once=at_once)).around(handled.append)
    call = _call()
    pending = handler(call)
    assert (pending is None) == at_once == bool(handled)
    if pending is not None:
        await pending
    assert handled == [call]
    assert call.is_authorized


async def test_a_denied_call_does_not_reach_the_handler() -> None:
    handled: list[Call] = []
    handler = RequirePermission(_Authorization(at_once=False)).around(handled.append)
    call = _call()
    call.info.verb = "delete"
    pending = handler(call)
    assert pending is not None
    with pytest.raises(Forbidden):
        await pending
    assert not handled
    assert not call.is_authorized


class _Clusters:
    def __init__(self, denial: StatusError | None, allowed: bool) -> None:
        self._denial, self._allowed = denial, allowed

    def resolve(self, call: Call) -> Pending:
        if self._denial is not None:
            raise HiddenDenial(self._denial, self._check)
        return None

    async def _check(self, call: Call) -> None:
        if not self._allowed:
            raise Forbidden("no")


@pytest.mark.parametrize(("allowed", "raised"), [(True, NotFound), (False, Forbidden)])
async def test_only_users_who_may_know_learn_that_a_workspace_is_missing(
    allowed: bool, raised: type[StatusError]
) -> None:
    clusters = _Clusters(NotFound("there is none"), allowed)
    handler = FindCluster(clusters, cast("Any", None)).around(lambda _: None)
    call = _call()
    call.has_trusted_user = True  # nobody has to be signed in
    pending = handler(call)
    assert pending is not None
    with pytest.raises(raised):
        await pending


def test_a_missing_cluster_is_refused_before_the_handler() -> None:
    def check(call: Call) -> None:
        raise Forbidden("no")

    handled: list[Call] = []
    handler = ExistingCluster(check).around(handled.append)
    with pytest.raises(Forbidden):
        handler(_call())
    assert not handled


class _SignIn:
    async def authenticate(self, call: Call) -> Any:
        from types import SimpleNamespace

        from pykcp.auth.user import User

        return SimpleNamespace(user=User("alice"), warnings=("old token",), annotations=())


async def test_callers_without_a_known_user_are_authenticated() -> None:
    handled: list[str] = []
    handler = RequireUser(cast("Any", _SignIn())).around(lambda c: handled.append(c.user.name))
    call = Call(cast("Any", _Exchange()), parse("GET", "/api", ""))
    pending = handler(call)
    assert pending is not None
    await pending
    assert handled == ["alice"]
    assert handler(call) is None, "now the user is known"
    assert handled == ["alice", "alice"]


class _Exchange:
    class request:  # noqa: N801
        @staticmethod
        def header(name: str) -> None:
            return None
