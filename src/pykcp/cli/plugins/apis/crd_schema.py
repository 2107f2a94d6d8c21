"""Conversion of a CustomResourceDefinition to an APIResourceSchema."""

from __future__ import annotations

from typing import Any

from pykcp.cli.plugins.apis.crd_types import read_spec
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.machinery import names as name_rules

Object = dict[str, Any]


def convert(definition: Object, prefix: str, *, fills_in: bool = True) -> Object:
    """The schema `<prefix>.<name of the CRD>`, with its keys in the order of the API.

    `fills_in` adds what an API server would add to the CRD when it is created.
    """
    own_name = (definition.get("metadata") or {}).get("name") or ""
    name = f"{prefix}.{own_name}"
    problems = [
        f"metadata.name: Invalid value: {quote(name)}: {problem}"
        for problem in name_rules.dns1123_subdomain(name)
    ]
    if problems:
        raise PluginError(aggregate(problems))
    spec = read_spec(definition)
    if fills_in:
        spec = _filled(spec)
    versions = [_version(version) for version in spec.get("versions") or []]
    if len(versions) > 1 and "conversion" not in spec:
        raise PluginError(f"multiple versions specified for {own_name} but no conversion strategy")
    result: Object = {
        "group": spec.get("group", ""),
        "names": _ordered(spec.get("names") or {}),
        "scope": spec.get("scope", ""),
        "versions": versions or None,
    }
    if "conversion" in spec:
        result["conversion"] = _conversion(spec["conversion"])
    return {
        "kind": "APIResourceSchema",
        "apiVersion": "apis.kcp.io/v1alpha1",
        "metadata": {"name": name},
        "spec": result,
    }


def aggregate(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]"


def _filled(spec: Object) -> Object:
    """With the defaults of an API server."""
    given = spec.get("names") or {}
    kind = given.get("kind", "")
    filled = {"singular": kind.lower(), "listKind": f"{kind}List" if kind else "", **given}
    return {**spec, "names": filled, "conversion": spec.get("conversion") or {"strategy": "None"}}


def _ordered(given: Object) -> Object:
    """Names in the order of the structure; two of them are always there."""
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    always = ("plural", "kind")
    return {name: given.get(name, "") for name in order if given.get(name) or name in always}


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


def _conversion(given: Object) -> Object:
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
