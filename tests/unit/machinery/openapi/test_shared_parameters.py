from __future__ import annotations

import pytest

from pykcp.machinery.openapi.shared_parameters import SharedParameters
from pykcp.types import Object

LIMIT: Object = {
    "uniqueItems": True,
    "type": "integer",
    "description": "how many",
    "name": "limit",
    "in": "query",
}


def body(component: str) -> Object:
    return {"name": "body", "in": "body", "schema": {"$ref": f"#/definitions/{component}"}}


def test_equal_parameters_are_one() -> None:
    shared = SharedParameters()
    reference = shared.place(LIMIT)
    assert shared.place(dict(LIMIT)) == reference
    (name,) = shared.definitions()
    assert reference == {"$ref": f"#/parameters/{name}"}
    assert name.startswith("limit-")
    assert len(name) == len("limit-") + 8
    assert shared.definitions()[name] == LIMIT


def test_the_same_name_with_another_meaning_is_another_parameter() -> None:
    shared = SharedParameters()
    assert shared.place(LIMIT) != shared.place({**LIMIT, "description": "how few"})
    assert len(shared.definitions()) == 2


@pytest.mark.parametrize(
    "parameter",
    [
        {"name": "name", "in": "path", "type": "string", "required": True},
        {"name": "dryRun", "in": "query", "type": "string"},
        {"name": "fieldValidation", "in": "query", "type": "string"},
        body("io.k8s.api.core.v1.ConfigMap"),
        body("com.example.v1.Thing"),
    ],
)
def test_what_clients_look_for_in_place_stays_there(parameter: Object) -> None:
    shared = SharedParameters()
    assert shared.place(parameter) is parameter
    assert shared.definitions() == {}


def test_bodies_that_every_kind_takes_are_shared() -> None:
    shared = SharedParameters()
    options = body("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    assert "$ref" in shared.place(options)
    assert list(shared.definitions().values()) == [options]
