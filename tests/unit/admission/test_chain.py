"""The chain: its order, the second round, and what it puts right afterwards."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pykcp.admission.chain import AdmissionChain, NotInstalledError
from pykcp.admission.reinvocation import leave, reinvocation_of, replace_contents
from pykcp.auth.user import User
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import BadRequest
from pykcp.registry.context import RequestContext
from pykcp.registry.verbs.admitting import AdmissionRequest

MANAGERS = [
    {
        "manager": "me", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {}},
    }
]  # fmt: skip


def _request(**metadata: Any) -> AdmissionRequest:
    rules = SimpleNamespace(unconditional_update=True)
    resource: Any = SimpleNamespace(
        group="", plural="things", namespaced=True, rules=rules, storage=("", "things")
    )
    obj = {"metadata": {"name": "x", "namespace": "ns", "managedFields": MANAGERS, **metadata}}
    return AdmissionRequest(RequestContext("c", User("u")), resource, "CREATE", "ns", "x", obj)


class _Plugin:
    """Does something to the object in each round, as a webhook would."""

    def __init__(self, name: str, change: Any, *, again: bool = False) -> None:
        self.name = name
        self.calls: list[bool] = []
        self._change = change
        self._again = again

    def wants(self, request: AdmissionRequest) -> bool:
        return True

    async def mutate(self, request: AdmissionRequest) -> None:
        again = reinvocation_of(request)
        rounds = again.enter(self.name, request)
        if again.is_second and self.name not in rounds.due:
            return
        self.calls.append(again.is_second)
        assert request.obj is not None
        if self._change(request.obj):
            rounds.changed()
            again.is_wanted = True
        if self._again:
            rounds.waiting.add(self.name)
        leave(rounds, request)


def _label(key: str) -> Any:
    def change(obj: Any) -> bool:
        labels = obj["metadata"].setdefault("labels", {})
        is_new = key not in labels
        labels[key] = "1"
        return is_new

    return change


def _chain(mutating: list[Any], validating: list[Any]) -> AdmissionChain:
    chain = AdmissionChain()
    chain.install(mutating, validating)
    return chain


def test_only_those_who_want_and_were_overtaken_are_asked_again() -> None:
    overtaken = _Plugin("a", _label("a"), again=True)
    indifferent = _Plugin("b", _label("b"))
    last = _Plugin("c", lambda _: False, again=True)
    chain = _chain([overtaken, indifferent, last], [])
    asyncio.run(chain.mutate(_request()))
    assert (overtaken.calls, indifferent.calls, last.calls) == ([False, True], [False], [False])


def test_there_is_no_second_round_without_a_change() -> None:
    plugin = _Plugin("a", lambda _: False, again=True)
    asyncio.run(_chain([plugin], []).mutate(_request()))
    assert plugin.calls == [False]


class _Narrow:
    """About some kinds and operations only, as far as it says so."""

    name = "narrow"

    def __init__(self, seen: list[str], **about: Any) -> None:
        self._seen = seen
        self._label = repr(about)
        for key, value in about.items():
            setattr(self, key, value)

    def wants(self, request: AdmissionRequest) -> bool:
        self._seen.append(self._label)
        return False

    async def validate(self, request: AdmissionRequest) -> None:
        raise AssertionError


THINGS, OTHERS = GroupVersionResource("", "v1", "things"), GroupVersionResource("g", "v1", "others")


@pytest.mark.parametrize(
    ("about", "meets"),
    [
        ({}, True),
        ({"kind": THINGS}, True),
        ({"kind": OTHERS}, False),
        ({"kinds": (OTHERS, THINGS)}, True),
        ({"kinds": (OTHERS,)}, False),
        ({"operations": ("CREATE",)}, True),
        ({"operations": ("UPDATE", "DELETE")}, False),
        ({"kind": THINGS, "operations": ("DELETE",)}, False),
    ],
)
def test_plugins_meet_only_what_they_are_about(about: dict[str, Any], meets: bool) -> None:
    seen: list[str] = []
    first, last = _Narrow(seen), _Narrow(seen, kinds=(THINGS, OTHERS))
    asyncio.run(_chain([], [first, _Narrow(seen, **about), last]).validate(_request()))
    middle = [repr(about)] if meets else []
    assert seen == [repr({}), *middle, repr({"kinds": (THINGS, OTHERS)})]


def _mutated(change: Any, request: AdmissionRequest) -> Any:
    asyncio.run(_chain([_Plugin("a", change)], []).mutate(request))
    assert request.obj is not None
    return request.obj["metadata"]


def test_unreadable_managers_are_put_back() -> None:
    def spoil(obj: Any) -> None:
        obj["metadata"]["managedFields"] = [{"manager": "x", "operation": "Nope"}]

    request = _request()
    assert _mutated(spoil, request)["managedFields"] == MANAGERS
    (warning,) = request.context.warnings
    assert warning.startswith(".metadata.managedFields was in an invalid state after admission")


def test_managers_may_be_changed_and_dropped() -> None:
    def drop(obj: Any) -> None:
        del obj["metadata"]["managedFields"]

    request = _request()
    assert "managedFields" not in _mutated(drop, request)
    assert request.context.warnings == []


def test_replaced_metadata_is_completed() -> None:
    def replace(obj: Any) -> None:
        replace_contents(obj, {"metadata": {"name": "x"}})

    request = _request(resourceVersion="7")
    request.old = {"metadata": {"resourceVersion": "7"}}
    assert _mutated(replace, request) == {"name": "x", "namespace": "ns", "resourceVersion": "7"}


def test_another_namespace_is_refused() -> None:
    def move(obj: Any) -> None:
        obj["metadata"]["namespace"] = "other"

    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        _mutated(move, _request())


def test_contents_are_replaced_in_place() -> None:
    obj = {"metadata": {"name": "x", "labels": {}}, "data": {"a": "1"}}
    metadata = obj["metadata"]
    replace_contents(obj, {"metadata": metadata, "spec": 1})
    assert obj == {"metadata": {"name": "x", "labels": {}}, "spec": 1}
    assert obj["metadata"] is metadata


def test_a_write_before_the_plug_ins_are_installed_fails() -> None:
    with pytest.raises(NotInstalledError):
        asyncio.run(AdmissionChain().mutate(_request()))
