"""The scenario `api-provider`: a provider exports an API, a consumer binds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError, Prefixed
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.quickstart.scenario import (
    ORGANIZATION_SUFFIX,
    Scenario,
    ScenarioStep,
    Stage,
    check_name,
    create_or_get,
    organization_step,
    workspace_step,
)
from pykcp.cli.plugins.wait import poll
from pykcp.cli.plugins.workspace.resources import apis, phase

Object = dict[str, Any]
PROVIDER_SUFFIX = "-provider"
CONSUMER_SUFFIX = "-consumer"
_TEXT = {"type": "string"}

SCHEMA: Object = {
    "apiVersion": "apis.kcp.io/v1alpha1",
    "kind": "APIResourceSchema",
    "metadata": {"name": "today.cowboys.wildwest.dev"},
    "spec": {
        "group": "wildwest.dev",
        "names": {
            "plural": "cowboys",
            "singular": "cowboy",
            "shortNames": ["cb"],
            "kind": "Cowboy",
            "listKind": "CowboyList",
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "type": "object",
                    "description": "A cowboy.",
                    "properties": {
                        "apiVersion": _TEXT,
                        "kind": _TEXT,
                        "metadata": {"type": "object"},
                        "spec": {
                            "type": "object",
                            "properties": {
                                "intent": {**_TEXT, "description": "What they are up to."}
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": {
                                "result": {**_TEXT, "description": "What has come of it."}
                            },
                        },
                    },
                },
                "subresources": {"status": {}},
            }
        ],
    },
}
EXPORT: Object = {
    "apiVersion": "apis.kcp.io/v1alpha2",
    "kind": "APIExport",
    "metadata": {"name": "cowboys"},
    "spec": {
        "resources": [
            {
                "group": "wildwest.dev",
                "name": "cowboys",
                "schema": SCHEMA["metadata"]["name"],
                "storage": {"crd": {}},
            }
        ]
    },
}
COWBOY: Object = {
    "apiVersion": "wildwest.dev/v1alpha1",
    "kind": "Cowboy",
    "metadata": {"name": "john-wayne", "namespace": "default"},
    "spec": {"intent": "good"},
}

_SUMMARY = """
Quickstart complete! Here's what was created:

  Workspace hierarchy:
    root
    +-- {org} (organization)
        +-- {provider} (universal) - service provider
        |   +-- APIResourceSchema: today.cowboys.wildwest.dev
        |   +-- APIExport: cowboys
        +-- {consumer} (universal) - API consumer
            +-- APIBinding: cowboys -> {provider_path}:cowboys

  Try it out:
    kubectl ws :{consumer_path}
{apply}    kubectl get cowboys

  Cleanup:
    kubectl kcp quickstart --cleanup --name-prefix {prefix}
"""
_APPLY = """    kubectl apply -f - <<EOF
    apiVersion: wildwest.dev/v1alpha1
    kind: Cowboy
    metadata:
      name: john-wayne
      namespace: default
    spec:
      intent: good
    EOF
"""


class ApiProvider(Scenario):
    name = "api-provider"

    def check(self, prefix: str) -> None:
        for suffix in (ORGANIZATION_SUFFIX, PROVIDER_SUFFIX, CONSUMER_SUFFIX):
            check_name(prefix + suffix, f"--name-prefix {quote(prefix)}")

    def steps(self, prefix: str) -> list[ScenarioStep]:
        provider, consumer = prefix + PROVIDER_SUFFIX, prefix + CONSUMER_SUFFIX
        return [
            organization_step(prefix, "cascades provider and consumer"),
            ScenarioStep(
                f"Creating service provider workspace {quote(provider)}",
                _workspace_maker("provider", provider),
            ),
            ScenarioStep("Applying APIResourceSchema", _maker("apiresourceschemas", SCHEMA)),
            ScenarioStep("Applying APIExport", _maker("apiexports", EXPORT)),
            ScenarioStep(
                f"Creating consumer workspace {quote(consumer)}",
                _workspace_maker("consumer", consumer),
            ),
            ScenarioStep("Creating APIBinding in consumer workspace", _bind),
        ]

    def samples(self, prefix: str) -> list[ScenarioStep]:
        consumer = prefix + CONSUMER_SUFFIX
        return [ScenarioStep(f"Applying sample Cowboy resource in {quote(consumer)}", _make_cowboy)]

    def place_to_enter(self, stage: Stage) -> str:
        return stage.paths.get("consumer", "")

    def summary(self, stage: Stage) -> str:
        return _SUMMARY.format(
            org=stage.prefix + ORGANIZATION_SUFFIX,
            provider=stage.prefix + PROVIDER_SUFFIX,
            consumer=stage.prefix + CONSUMER_SUFFIX,
            provider_path=stage.paths["provider"],
            consumer_path=stage.paths["consumer"],
            apply="" if stage.has_samples else _APPLY,
            prefix=stage.prefix,
        )


def _workspace_maker(key: str, name: str) -> Callable[[Stage], None]:
    return lambda stage: workspace_step(stage, key, stage.paths["org"], name, "universal")


def _maker(plural: str, body: Object) -> Callable[[Stage], None]:
    def make(stage: Stage) -> None:
        version = body["apiVersion"].partition("/")[2]
        collection = apis(stage.client, stage.paths["provider"], plural, version)
        _, existed = create_or_get(collection, body, f"creating {body['kind']}")
        _tell(body, "already exists" if existed else "created")

    return make


def _bind(stage: Stage) -> None:
    body = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": "cowboys"},
        "spec": {"reference": {"export": {"path": stage.paths["provider"], "name": "cowboys"}}},
    }
    collection = apis(stage.client, stage.paths["consumer"], "apibindings")
    _, existed = create_or_get(collection, body, 'creating APIBinding "cowboys"')
    try:
        poll(lambda: phase(collection.get("cowboys")) == "Bound", stage.seconds_left)
    except PluginError as error:
        words = 'timed out waiting for APIBinding "cowboys" to become bound'
        raise Prefixed(words, error) from error
    _tell(body, "already exists" if existed else "created and bound")


def _make_cowboy(stage: Stage) -> None:
    path = (
        f"/clusters/{stage.paths['consumer']}/apis/wildwest.dev/v1alpha1/namespaces/default/cowboys"
    )
    word = "created"
    try:
        stage.client.request("POST", path, COWBOY, about="cowboys.wildwest.dev")
    except ServerError as error:
        if not error.already_exists:
            raise Prefixed('creating Cowboy "john-wayne"', error) from error
        word = "already exists"
    _tell(COWBOY, word)
    stage.has_samples = True


def _tell(body: Object, word: str) -> None:
    print(f"  {body['kind']} {quote(body['metadata']['name'])} {word}", flush=True)
