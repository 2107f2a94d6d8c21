"""A CustomResourceDefinition turned into an APIResourceSchema."""

from __future__ import annotations

from typing import Any

from pykcp.cli.plugins.apis.crd_types import read_spec
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.machinery import names

Object = dict[str, Any]


def convert(definition: Object, prefix: str) -> Object:
    """The schema `<prefix>.<name of the CRD>`, with its keys in the order of the API."""
    own_name = (definition.get("metadata") or {}).get("name") or ""
    name = f"{prefix}.{own_name}"
    problems = [
        f"metadata.name: Invalid value: {quote(name)}: {problem}"
        for problem in names.dns1123_subdomain(name)
    ]
    if problems:
        raise PluginError(aggregate(problems))
    spec = read_spec(definition)
    return {
        "kind": "APIResourceSchema",
        "apiVersion": "apis.kcp.io/v1alpha1",
        "metadata": {"name": name},
        "spec": {
            "group": spec.get("group", ""),
            "names": _names(spec.get("names") or {}),
            "scope": spec.get("scope", ""),
            "versions": [_version(version) for version in spec.get("versions") or []] or None,
            "conversion": _conversion(spec.get("conversion")),
        },
    }


def aggregate(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]"


def _names(given: Object) -> Object:
    """What the API server would fill in; in the order of the structure."""
    kind = given.get("kind", "")
    filled = {
        "plural": given.get("plural", ""),
        "singular": given.get("singular") or kind.lower(),
        "shortNames": given.get("shortNames"),
        "kind": kind,
        "listKind": given.get("listKind") or (f"{kind}List" if kind else ""),
        "categories": given.get("categories"),
    }
    always = ("plural", "kind")
    return {name: value for name, value in filled.items() if value or name in always}


def _version(given: Object) -> Object:
    version: Object = {
        "name": given.get("name", ""),
        "served": given.get("served", False),
        "storage": given.get("storage", False),
    }
    for name in ("deprecated", "deprecationWarning"):
        if name in given:
            version[name] = given[name]
    version["schema"] = (given.get("schema") or {}).get("openAPIV3Schema")
    version["subresources"] = given.get("subresources") or {}
    for name in ("additionalPrinterColumns", "selectableFields"):
        if name in given:
            version[name] = given[name]
    return version


def _conversion(given: Object | None) -> Object:
    if given is None:
        return {"strategy": "None"}
    conversion: Object = {"strategy": given.get("strategy", "")}
    if conversion["strategy"] != "Webhook":
        return conversion
    webhook = given.get("webhook")
    if webhook is None:
        raise PluginError("webhook must be set with strategy Webhook")
    result: Object = {}
    if "clientConfig" in webhook:
        result["clientConfig"] = _client(webhook["clientConfig"])
    result["conversionReviewVersions"] = webhook.get("conversionReviewVersions")
    return {**conversion, "webhook": result}


def _client(given: Object) -> Object:
    if "service" in given:
        raise PluginError(
            "webhooks that refer to services are not supported, please use URL instead"
        )
    if "url" not in given:
        raise PluginError("webhooks URL must be set")
    both = {"url": given["url"], "caBundle": given.get("caBundle")}
    return {name: value for name, value in both.items() if value}
