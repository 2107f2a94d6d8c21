"""Core kinds that hold data: Namespace, ConfigMap, Secret, ServiceAccount."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from pykcp.apis.kube.validation import gojson
from pykcp.apis.kube.validation.objectmeta import (
    each_invalid,
    kube_finalizer_errors,
    name_is_label,
    name_is_subdomain,
    same,
    unchanged,
    validate_label_key,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules, keep
from pykcp.machinery import meta, names
from pykcp.machinery.meta import is_deleting, metadata
from pykcp.machinery.status import FieldError, forbidden, invalid, required, too_long
from pykcp.types import Object

DATA_MAX = 1024 * 1024
NAME_LABEL = "kubernetes.io/metadata.name"
SERVICE_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
MOUNTABLE_ANNOTATION = "kubernetes.io/enforce-mountable-secrets"
_SEALED = "field is immutable when `immutable` is set"


def _meta_errors(obj: Object) -> list[FieldError]:
    return validate_object_meta(metadata(obj), True, name_is_subdomain, kube_finalizers=True)


def _meta_update_errors(new: Object, old: Object) -> list[FieldError]:
    return validate_object_meta_update(metadata(new), metadata(old), kube_finalizers=True)


# Namespace


def _default_namespace(obj: Object) -> None:
    _label_namespace(obj)
    status = obj.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Active"


def _label_namespace(obj: Object) -> None:
    """Each namespace carries its name as a label, whatever the client sent."""
    name = metadata(obj).get("name")
    if name:
        labels = metadata(obj).get("labels")
        if not labels or labels.get(NAME_LABEL) != name:
            obj["metadata"]["labels"] = {**(labels or {}), NAME_LABEL: name}


def _prepare_namespace(obj: Object, _: Facts) -> None:
    obj["status"] = {"phase": "Active"}
    spec = obj.get("spec") or {}
    finalizers = spec.get("finalizers") or []
    if "kubernetes" not in finalizers:
        finalizers = [*finalizers, "kubernetes"]
    obj["spec"] = {**spec, "finalizers": finalizers}


def _prepare_namespace_update(new: Object, old: Object, _: Facts) -> None:
    keep(new, old, "spec", "status")


def _validate_namespace(obj: Object, _: Facts) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), False, name_is_label, kube_finalizers=True)
    for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
        errors += _namespace_finalizer_errors(finalizer, "spec.finalizers")
    return errors


def _namespace_finalizer_errors(finalizer: str, path: str) -> list[FieldError]:
    return validate_label_key(finalizer, path) + kube_finalizer_errors(finalizer, path)


def _validate_namespace_update(new: Object, old: Object, facts: Facts) -> list[FieldError]:
    return _validate_namespace(new, facts) + _meta_update_errors(new, old)


def _validate_namespace_status(new: Object, old: Object, _: Facts) -> list[FieldError]:
    errors = _meta_update_errors(new, old)
    phase = (new.get("status") or {}).get("phase", "")
    if is_deleting(new):
        if phase != "Terminating":
            why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            errors.append(invalid("status.Phase", phase, why))
    elif phase != "Active":
        why = "may only be 'Active' if `deletionTimestamp` is empty"
        errors.append(invalid("status.Phase", phase, why))
    return errors


def _validate_namespace_finalize(new: Object, old: Object, _: Facts) -> list[FieldError]:
    errors = _meta_update_errors(new, old)
    for index, finalizer in enumerate((new.get("spec") or {}).get("finalizers") or ()):
        errors += _namespace_finalizer_errors(finalizer, f"spec.finalizers[{index}]")
    return errors


NAMESPACE = KindRules(
    namespaced=False,
    default=_default_namespace,
    prepare_for_create=_prepare_namespace,
    prepare_for_update=_prepare_namespace_update,
    validate=_validate_namespace,
    validate_update=_validate_namespace_update,
    canonicalize=_label_namespace,
    field_labels=("metadata.name", "status.phase"),
    selectable=lambda obj: {"status.phase": (obj.get("status") or {}).get("phase", "")},
    subresources={
        "status": KindRules(
            default=_default_namespace,
            prepare_for_update=lambda new, old, _: keep(new, old, "spec"),
            validate_update=_validate_namespace_status,
            canonicalize=_label_namespace,
        ),
        "finalize": KindRules(
            default=_default_namespace,
            prepare_for_update=lambda new, old, _: keep(new, old, "status"),
            validate_update=_validate_namespace_finalize,
            canonicalize=_label_namespace,
        ),
    },
)


# ConfigMap


def _config_map_body(obj: Object, old: Object | None, _: Facts) -> list[FieldError]:
    errors = _sealed_errors(obj, old, "data", "binaryData") if old else []
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        errors += _data_key_errors(key, "data")
        if key in binary:
            why = "duplicate of key present in binaryData"
            errors.append(invalid(f"data[{key}]", key, why))
        size += names.byte_length(value)
    for key, value in binary.items():
        errors += _data_key_errors(key, "binaryData")
        size += _decoded_length(value)
    if size > DATA_MAX:
        errors.append(too_long("[]", DATA_MAX))
    return errors


def _data_key_errors(key: str, field: str) -> list[FieldError]:
    messages = names.config_key(key)
    return each_invalid(f"{field}[{key}]", key, messages) if messages else []


def _validate_config_map(obj: Object, facts: Facts) -> list[FieldError]:
    return _meta_errors(obj) + _config_map_body(obj, None, facts)


def _validate_config_map_update(new: Object, old: Object, facts: Facts) -> list[FieldError]:
    errors = _meta_update_errors(new, old)
    errors += _sealed_errors(new, old, "data", "binaryData")
    return errors + _validate_config_map(new, facts)


def _sealed_errors(new: Object, old: Object, *fields: str) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _SEALED)]
    errors += [forbidden(f, _SEALED) for f in fields if not same(new.get(f), old.get(f))]
    return errors


CONFIG_MAP = KindRules(
    namespaced=True,
    validate=_validate_config_map,
    validate_update=_validate_config_map_update,
    body=_config_map_body,
)


# Secret


def _default_secret(obj: Object) -> None:
    if not obj.get("type"):
        obj["type"] = "Opaque"
    text = obj.pop("stringData", None)
    if text:
        encoded = {k: base64.b64encode(v.encode()).decode() for k, v in text.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _prepare_secret_update(new: Object, old: Object, _: Facts) -> None:
    if not new.get("type"):
        new["type"] = old.get("type", "")


def _decoded_length(value: str | None) -> int:
    """How many bytes a base64 text stands for."""
    if not value:
        return 0
    return len(value) // 4 * 3 - value[-2:].count("=")


def _secret_body(obj: Object, old: Object | None, _: Facts) -> list[FieldError]:
    errors = _secret_change_errors(obj, old) if old else []
    data = obj.get("data") or {}
    size = 0
    for key, value in data.items():
        errors += _data_key_errors(key, "data")
        size += _decoded_length(value)
    if size > DATA_MAX:
        errors.append(too_long("data", DATA_MAX))
    return errors + _secret_type_errors(obj, data)


def _secret_type_errors(obj: Object, data: Mapping[str, Any]) -> list[FieldError]:
    kind = obj.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        if not meta.annotation(obj, SERVICE_ACCOUNT_ANNOTATION):
            return [required(f"metadata.annotations[{SERVICE_ACCOUNT_ANNOTATION}]")]
    elif kind == "kubernetes.io/dockercfg":
        return _json_errors(data, ".dockercfg")
    elif kind == "kubernetes.io/dockerconfigjson":
        return _json_errors(data, ".dockerconfigjson")
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            return [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            return [required("data[ssh-privatekey]")]
    elif kind == "kubernetes.io/tls":
        keys = ("tls.crt", "tls.key")
        return [required(f"data[{key}]") for key in keys if key not in data]
    return []


def _json_errors(data: Mapping[str, Any], key: str) -> list[FieldError]:
    if key not in data:
        return [required(f"data[{key}]")]
    problem = gojson.object_error(base64.b64decode(data[key] or ""))
    return [invalid(f"data[{key}]", "<secret contents redacted>", problem)] if problem else []


def _secret_change_errors(new: Object, old: Object) -> list[FieldError]:
    errors = unchanged(new.get("type", ""), old.get("type", ""), "type")
    return errors + _sealed_errors(new, old, "data")


def _validate_secret(obj: Object, facts: Facts) -> list[FieldError]:
    return _meta_errors(obj) + _secret_body(obj, None, facts)


def _validate_secret_update(new: Object, old: Object, facts: Facts) -> list[FieldError]:
    errors = _meta_update_errors(new, old) + _secret_change_errors(new, old)
    return errors + _validate_secret(new, facts)


def _secret_warnings(new: Object, _: Object | None, __: Facts) -> list[str]:
    if new.get("type") != "kubernetes.io/tls":
        return []
    from pykcp.apis.kube.validation.pem import key_pair_error

    data = new.get("data") or {}
    problem = key_pair_error(
        base64.b64decode(data.get("tls.crt") or ""), base64.b64decode(data.get("tls.key") or "")
    )
    return [problem] if problem else []


SECRET = KindRules(
    namespaced=True,
    default=_default_secret,
    prepare_for_update=_prepare_secret_update,
    validate=_validate_secret,
    validate_update=_validate_secret_update,
    body=_secret_body,
    warnings=_secret_warnings,
    field_labels=("metadata.name", "metadata.namespace", "type"),
    selectable=lambda obj: {"type": obj.get("type", "")},
)


# ServiceAccount


def _clean_secret_references(obj: Object) -> None:
    """Of a reference to a secret only the name counts."""
    if obj.get("secrets"):
        obj["secrets"] = [
            {"name": secret["name"]} if secret.get("name") else {} for secret in obj["secrets"]
        ]


def _service_account_warnings(new: Object, old: Object | None, _: Facts) -> list[str]:
    if MOUNTABLE_ANNOTATION not in meta.annotations(new):
        return []
    if old is not None and MOUNTABLE_ANNOTATION in meta.annotations(old):
        return []
    why = "prefer separate namespaces to isolate access to mounted secrets"
    return [f"metadata.annotations[{MOUNTABLE_ANNOTATION}]: deprecated in v1.32+; {why}"]


SERVICE_ACCOUNT = KindRules(
    namespaced=True,
    prepare_for_create=lambda obj, _: _clean_secret_references(obj),
    prepare_for_update=lambda new, _, __: _clean_secret_references(new),
    validate=lambda obj, _: _meta_errors(obj),
    validate_update=lambda new, old, _: _meta_update_errors(new, old) + _meta_errors(new),
    body=lambda *_: [],
    warnings=_service_account_warnings,
)
