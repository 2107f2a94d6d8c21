"""ValidatingWebhookConfiguration and MutatingWebhookConfiguration."""

from __future__ import annotations

from dataclasses import dataclass

from pykcp.apis.kube.validation import gourl
from pykcp.apis.kube.validation.admission_match import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    Expressions,
    choice_errors,
    default_rule,
    default_selection,
    match_conditions_errors,
    name_warnings,
    rule_errors,
)
from pykcp.apis.kube.validation.objectmeta import (
    each_invalid,
    name_is_subdomain,
    same,
    validate_label_selector,
    validate_object_meta,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules, bump_generation, set_generation
from pykcp.machinery import names
from pykcp.machinery.meta import metadata, name
from pykcp.machinery.status import MAX_FIELD_ERRORS, FieldError, duplicate, invalid, required
from pykcp.types import Object

_REVIEW_VERSIONS = ("v1", "v1beta1")
_HARMLESS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_URL_FORM = "; desired format: https://host[/path]"


def _hooks(obj: Object) -> list[Object]:
    return obj.get("webhooks") or []


def _default_hook(hook: Object) -> None:
    if hook.get("failurePolicy") is None:
        hook["failurePolicy"] = "Fail"
    default_selection(hook)
    if hook.get("timeoutSeconds") is None:
        hook["timeoutSeconds"] = 10
    service = (hook.get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443
    for rule in hook.get("rules") or ():
        default_rule(rule)


def _default_validating(obj: Object) -> None:
    for hook in _hooks(obj):
        _default_hook(hook)


def _default_mutating(obj: Object) -> None:
    for hook in _hooks(obj):
        _default_hook(hook)
        if hook.get("reinvocationPolicy") is None:
            hook["reinvocationPolicy"] = "Never"


@dataclass(frozen=True, slots=True)
class _Strictness:
    """An update need not be better than what it replaces."""

    check_conditions: bool = True
    harmless: bool = True
    known_version: bool = True
    unique_names: bool = True
    valid_selectors: bool = True
    known: frozenset[str] = frozenset()


def _strictness(new: Object, old: Object) -> _Strictness:
    before = _hooks(old)
    hook_names = [hook.get("name", "") for hook in before]
    selectors = [h.get(f) for h in before for f in ("namespaceSelector", "objectSelector")]
    conditions = [hook.get("matchConditions") for hook in before]
    return _Strictness(
        check_conditions=not same([h.get("matchConditions") for h in _hooks(new)], conditions),
        harmless=all(hook.get("sideEffects") in _HARMLESS for hook in before),
        known_version=all(_knows_version(hook) for hook in before),
        unique_names=len(set(hook_names)) == len(hook_names),
        valid_selectors=not any(validate_label_selector(found, "") for found in selectors),
        known=frozenset(c.get("expression", "") for some in conditions for c in some or ()),
    )


def _knows_version(hook: Object) -> bool:
    versions = hook.get("admissionReviewVersions") or []
    return not versions or any(version in _REVIEW_VERSIONS for version in versions)


def _errors(obj: Object, facts: Facts, strictness: _Strictness, mutating: bool) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), False, name_is_subdomain)
    seen: set[str] = set()
    for index, hook in enumerate(_hooks(obj)):
        path = f"webhooks[{index}]"
        errors += _hook_errors(hook, path, facts, strictness, mutating=mutating)
        errors += _versions_errors(hook, strictness, f"{path}.admissionReviewVersions")
        hook_name = hook.get("name", "")
        if strictness.unique_names and hook_name in seen:
            errors.append(duplicate(f"{path}.name", hook_name))
        if hook_name:
            seen.add(hook_name)
    return errors


def _hook_errors(
    hook: Object, path: str, facts: Facts, strictness: _Strictness, *, mutating: bool
) -> list[FieldError]:
    errors = _hook_name_errors(hook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        errors += rule_errors(rule, f"{path}.rules[{index}]")
    errors += choice_errors(hook.get("failurePolicy"), FAILURE_POLICIES, f"{path}.failurePolicy")
    errors += choice_errors(hook.get("matchPolicy"), MATCH_POLICIES, f"{path}.matchPolicy")
    errors += _side_effects_errors(hook.get("sideEffects"), strictness, f"{path}.sideEffects")
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", timeout, why))
    for field in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(
            hook.get(field),
            f"{path}.{field}",
            allow_invalid_values=not strictness.valid_selectors,
        )
    if mutating:
        at = f"{path}.reinvocationPolicy"
        errors += choice_errors(hook.get("reinvocationPolicy"), REINVOCATION_POLICIES, at)
    errors += client_config_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    if strictness.check_conditions:
        expressions = Expressions(facts, known=strictness.known)
        errors += match_conditions_errors(
            hook.get("matchConditions"), expressions, f"{path}.matchConditions"
        )
    return errors


def _hook_name_errors(hook_name: str, path: str) -> list[FieldError]:
    if not hook_name:
        return [required(path)]
    messages = names.dns1123_subdomain(hook_name)
    if messages:
        return [invalid(path, hook_name, ",".join(messages))]
    if hook_name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        return [invalid(path, hook_name, why)]
    return []


def _side_effects_errors(value: str | None, strictness: _Strictness, path: str) -> list[FieldError]:
    allowed = _HARMLESS if strictness.harmless else _SIDE_EFFECTS
    if value is None:
        return [required(path, f"must specify one of {', '.join(allowed)}")]
    return choice_errors(value, allowed, path)


def _versions_errors(hook: Object, strictness: _Strictness, path: str) -> list[FieldError]:
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        return [required(path, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")]
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
    if strictness.known_version and not _knows_version(hook):
        why = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        errors.append(invalid(path, versions, why))
    return errors


def client_config_errors(config: Object, path: str) -> list[FieldError]:
    """Where a webhook is: a URL or a service, not both."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return webhook_url_errors(url, f"{path}.url")
    assert service is not None
    return webhook_service_errors(service, f"{path}.service", swapped=True)


def webhook_url_errors(text: str, path: str) -> list[FieldError]:
    try:
        url = gourl.parse(text)
    except gourl.GoURLError as error:
        return [required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    errors = []
    if url.scheme != "https":
        why = f"'https' is the only allowed URL scheme{_URL_FORM}"
        errors.append(invalid(path, url.scheme, why))
    if not url.host:
        errors.append(invalid(path, "", f"host must be specified{_URL_FORM}"))
    if url.user is not None:
        why = "user information is not permitted in the URL"
        errors.append(invalid(path, url.user, why))
    if url.fragment:
        errors.append(invalid(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        errors.append(invalid(path, url.query, "query parameters are not permitted in the URL"))
    return errors


def webhook_service_errors(
    service: Object, path: str, *, swapped: bool = False
) -> list[FieldError]:
    """A service in the cluster.

    Upstream's admission passes name and namespace in the wrong order (`swapped`), so its error
    names the wrong one as missing. Clients see that message, so it is reproduced.
    """
    fields = ("namespace", "name") if swapped else ("name", "namespace")
    errors = [
        required(f"{path}.{said}")
        for said, looked_at in zip(("name", "namespace"), fields, strict=True)
        if not service.get(looked_at)
    ]
    port = service.get("port", 443)
    problems = names.port_number(port)
    if problems:
        errors.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(problems)}"))
    return errors + _service_path_errors(service.get("path"), f"{path}.path")


def _service_path_errors(url_path: str | None, path: str) -> list[FieldError]:
    if url_path in {None, "", "/"}:
        return []
    assert url_path is not None
    if url_path == "//":
        return [invalid(path, url_path, "segment[0] may not be empty")]
    errors: list[FieldError] = []
    if not url_path.startswith("/"):
        errors.append(invalid(path, url_path, "must start with a '/'"))
    for index, step in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(path, url_path, f"segment[{index}] may not be empty"))
            continue
        messages = [f"segment[{index}]: {message}" for message in names.dns1123_subdomain(step)]
        errors += each_invalid(path, url_path, messages)
    return errors


def _prepare_update(new: Object, old: Object, _: Facts) -> None:
    if not same(_hooks(new), _hooks(old)):
        bump_generation(new, old)


VALIDATING = KindRules(
    default=_default_validating,
    prepare_for_create=lambda obj, _: set_generation(obj),
    prepare_for_update=_prepare_update,
    validate=lambda obj, facts: _errors(obj, facts, _Strictness(), mutating=False),
    validate_update=lambda new, old, facts: _errors(
        new, facts, _strictness(new, old), mutating=False
    ),
    warnings=lambda new, _, __: name_warnings(name(new)),
    unconditional_update=False,
)

MUTATING = KindRules(
    default=_default_mutating,
    prepare_for_create=lambda obj, _: set_generation(obj),
    prepare_for_update=_prepare_update,
    validate=lambda obj, facts: _errors(obj, facts, _Strictness(), mutating=True),
    validate_update=lambda new, old, facts: _errors(
        new, facts, _strictness(new, old), mutating=True
    ),
    warnings=lambda new, _, __: name_warnings(name(new)),
    unconditional_update=False,
)
