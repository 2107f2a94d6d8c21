"""Which stored objects a narrower schema would reject or cut."""

from __future__ import annotations

import orjson
import pytest

from pykcp.multicluster.importing.jobs import misfitting
from pykcp.types import Object

RULES = "x-kubernetes-validations"
NUMBER: Object = {"type": "integer"}


def schema(spec: Object, **more: object) -> Object:
    return {"type": "object", "properties": {"spec": spec}, **more}


def fields(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


CASES = {
    "fits": (schema(fields(x=NUMBER)), True),
    "another type": (schema(fields(x={"type": "string"})), False),
    "a field that is not known": (schema(fields(y=NUMBER)), False),
    "a limit": (schema(fields(x={**NUMBER, "minimum": 10})), False),
    "a rule": (schema({**fields(x=NUMBER), RULES: [{"rule": "self.x > 10"}]}), False),
    "a rule that holds": (schema({**fields(x=NUMBER), RULES: [{"rule": "self.x < 10"}]}), True),
    "a rule about the name": (
        schema(fields(x=NUMBER), **{RULES: [{"rule": "self.metadata.name == 'one'"}]}),
        True,
    ),
    "a rule about another name": (
        schema(fields(x=NUMBER), **{RULES: [{"rule": "self.metadata.name == 'two'"}]}),
        False,
    ),
}


@pytest.mark.parametrize(("narrower", "fits"), CASES.values(), ids=CASES)
def test_objects_that_do_not_fit_are_named(narrower: Object, fits: bool) -> None:
    obj = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"x": 1},
    }
    found = misfitting(orjson.dumps(narrower), orjson.dumps([obj]))
    assert found == ([] if fits else ["default/one"])
