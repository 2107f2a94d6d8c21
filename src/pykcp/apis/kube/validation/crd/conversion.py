"""How a CRD converts between its versions: not at all, or by a webhook."""

from __future__ import annotations

from pykcp.apis.kube.validation import pem
from pykcp.apis.kube.validation.admission_webhooks import (
    webhook_service_errors,
    webhook_url_errors,
)
from pykcp.apis.kube.validation.objectmeta import each_invalid
from pykcp.machinery import names
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykcp.types import Object

REVIEW_VERSIONS = ("v1", "v1beta1")


def knows_review_version(review_versions: list[str]) -> bool:
    return any(version in REVIEW_VERSIONS for version in review_versions)


def choice_errors(value: str, allowed: tuple[str, ...], path: str) -> list[FieldError]:
    """A value that must be there and be one of a few."""
    if not value:
        return [required(path)]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def conversion_errors(
    spec: Object, *, known_version: bool, any_ca_bundle: bool
) -> list[FieldError]:
    """`known_version`: one review version must be supported; `any_ca_bundle`: skip its validation."""
    conversion, path = spec.get("conversion"), "spec.conversion"
    if conversion is None:
        return []
    strategy = conversion.get("strategy", "")
    errors: list[FieldError] = []
    if strategy != "None" and spec.get("preserveUnknownFields"):
        why = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid(f"{path}.strategy", strategy, why))
    errors += choice_errors(strategy, ("None", "Webhook"), f"{path}.strategy")
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        why = "should not be set when strategy is not set to Webhook"
        if config is not None:
            errors.append(forbidden(f"{path}.webhookClientConfig", why))
        if versions:
            errors.append(forbidden(f"{path}.conversionReviewVersions", why))
        return errors
    errors += _client_config_errors(config, any_ca_bundle, f"{path}.webhookClientConfig")
    return errors + _review_versions_errors(
        versions, known_version, f"{path}.conversionReviewVersions"
    )


def _client_config_errors(
    config: Object | None, any_ca_bundle: bool, path: str
) -> list[FieldError]:
    if config is None:
        return [required(path, "required when strategy is set to Webhook")]
    url, service, bundle = (config.get(name) for name in ("url", "service", "caBundle"))
    errors: list[FieldError] = []
    if (url is None) == (service is None):
        errors.append(required(path, "exactly one of url or service is required"))
    elif url is not None:
        errors += webhook_url_errors(url, f"{path}.url")
    elif service is not None:
        errors += webhook_service_errors(service, f"{path}.service", swapped=True)
    if bundle and not any_ca_bundle:
        why = pem.ca_bundle_error(pem.decoded(bundle))
        if why:
            errors.append(invalid(f"{path}.caBundle", bundle, why))
    return errors


def _review_versions_errors(
    versions: list[str], known_version: bool, path: str
) -> list[FieldError]:
    if not versions:
        return [required(path)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        at = f"{path}[{index}]"
        if version in seen:
            errors.append(invalid(at, version, "duplicate version"))
        else:
            errors += each_invalid(at, version, names.dns1035_label(version))
        seen.add(version)
        if len(errors) > MAX_FIELD_ERRORS:
            break
    if known_version and not knows_review_version(versions):
        why = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(invalid(path, versions, why))
    return errors
