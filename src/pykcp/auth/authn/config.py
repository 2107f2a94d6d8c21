"""AuthenticationConfiguration (`apiserver.config.k8s.io`): from YAML to data. Pure.

Decoding is strict, as upstream's is: an unknown field is an error, because a misspelt rule would
otherwise silently not apply. The meaning of the data is checked in `config_validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

GROUP = "apiserver.config.k8s.io"
VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1alpha1", "v1beta1", "v1"))
KIND = "AuthenticationConfiguration"


class AuthenticationConfigError(Exception):
    """A configuration that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Issuer:
    url: str = ""
    discovery_url: str = ""
    certificate_authority: str = ""
    audiences: tuple[str, ...] = ()
    audience_match_policy: str = ""
    egress_selector_type: str = ""


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """A claim that must have a value, or a condition on all claims."""

    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClaimMapping:
    """Where an attribute of the user comes from: a claim, or an expression."""

    claim: str = ""
    expression: str = ""
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class ExtraMapping:
    key: str = ""
    value_expression: str = ""


@dataclass(frozen=True, slots=True)
class UserRule:
    expression: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class JwtConfig:
    """One issuer of tokens, and how its claims make a user."""

    issuer: Issuer = field(default_factory=Issuer)
    claim_validation_rules: tuple[ClaimRule, ...] = ()
    username: ClaimMapping = field(default_factory=ClaimMapping)
    groups: ClaimMapping = field(default_factory=ClaimMapping)
    uid: ClaimMapping = field(default_factory=ClaimMapping)
    extra: tuple[ExtraMapping, ...] = ()
    user_validation_rules: tuple[UserRule, ...] = ()


@dataclass(frozen=True, slots=True)
class AnonymousConfig:
    enabled: bool = False
    paths: tuple[str, ...] = ()
    """If not empty, the only paths that may be anonymous."""


@dataclass(frozen=True, slots=True)
class AuthenticationConfig:
    jwt: tuple[JwtConfig, ...] = ()
    anonymous: AnonymousConfig | None = None


def parse_config(text: str) -> AuthenticationConfig:
    """Raises ConfigError."""
    if not text:
        raise AuthenticationConfigError("empty config data")
    document = _load_yaml(text)
    if not isinstance(document, dict):
        raise AuthenticationConfigError(
            "couldn't get version/kind; json parse error: not an object"
        )
    kind, version = document.get("kind"), document.get("apiVersion")
    if not kind:
        raise AuthenticationConfigError("Object 'Kind' is missing")
    if not version:
        raise AuthenticationConfigError("Object 'apiVersion' is missing")
    if kind != KIND or version not in VERSIONS:
        raise AuthenticationConfigError(f'no kind "{kind}" is registered for version "{version}"')
    reader = _Reader()
    config = _read_document(reader, document)
    if reader.problems:
        raise AuthenticationConfigError("strict decoding error: " + ", ".join(reader.problems))
    return config


def _load_yaml(text: str) -> Any:
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """Refuses keys that are there twice: which one would count?"""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, str) and key in seen:
                    line = key_node.start_mark.line + 1
                    raise AuthenticationConfigError(
                        f'strict decoding error: line {line}: key "{key}" already set in map'
                    )
                if isinstance(key, str):
                    seen.add(key)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, StrictLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise AuthenticationConfigError(f"yaml: {where}{problem}") from None
    except RecursionError:
        raise AuthenticationConfigError("yaml: nested too deeply") from None
    except ValueError as error:  # dates that do not exist, numbers that are none
        raise AuthenticationConfigError(f"yaml: {error}") from None


Item = TypeVar("Item")


class _Reader:
    """Takes values out of decoded YAML and notes what does not belong there."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def object(self, value: Any, path: str, known: Sequence[str]) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problems.append(f"{path}: must be an object")
            return {}
        lead = f"{path}." if path else ""
        for name in value:
            if name not in known:
                self.problems.append(f'unknown field "{lead}{name}"')
        return value

    def text(self, parent: dict[str, Any], name: str, path: str) -> str:
        value = parent.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.problems.append(f"{path}.{name}: must be a string")
            return ""
        return value

    def texts(self, parent: dict[str, Any], name: str, path: str) -> tuple[str, ...]:
        value = parent.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.problems.append(f"{path}.{name}: must be a list of strings")
            return ()
        return tuple(value)

    def items(
        self, parent: dict[str, Any], name: str, path: str, read: Callable[[Any, str], Item]
    ) -> tuple[Item, ...]:
        value = parent.get(name)
        at = f"{path}.{name}" if path else name
        if value is None:
            return ()
        if not isinstance(value, list):
            self.problems.append(f"{at}: must be a list")
            return ()
        return tuple(read(one, f"{at}[{i}]") for i, one in enumerate(value))


def _read_document(reader: _Reader, document: dict[str, Any]) -> AuthenticationConfig:
    found = reader.object(document, "", ("kind", "apiVersion", "jwt", "anonymous"))
    anonymous = None
    if found.get("anonymous") is not None:
        anonymous = _read_anonymous(reader, found["anonymous"])
    return AuthenticationConfig(
        reader.items(found, "jwt", "", lambda one, path: _read_jwt(reader, one, path)), anonymous
    )


def _read_anonymous(reader: _Reader, value: Any) -> AnonymousConfig:
    found = reader.object(value, "anonymous", ("enabled", "conditions"))
    enabled = found.get("enabled") or False
    if not isinstance(enabled, bool):
        reader.problems.append("anonymous.enabled: must be true or false")
        enabled = False

    def read_condition(one: Any, path: str) -> str:
        return reader.text(reader.object(one, path, ("path",)), "path", path)

    return AnonymousConfig(enabled, reader.items(found, "conditions", "anonymous", read_condition))


def read_jwt(value: Any, path: str = "") -> JwtConfig:
    """One element of `jwt`, from wherever it comes. Raises ConfigError."""
    reader = _Reader()
    config = _read_jwt(reader, value, path)
    if reader.problems:
        raise AuthenticationConfigError("strict decoding error: " + ", ".join(reader.problems))
    return config


def _read_jwt(reader: _Reader, value: Any, path: str) -> JwtConfig:
    found = reader.object(
        value, path, ("issuer", "claimValidationRules", "claimMappings", "userValidationRules")
    )
    at = f"{path}.claimMappings"
    mappings = reader.object(found.get("claimMappings"), at, ("username", "groups", "uid", "extra"))
    return JwtConfig(
        issuer=_read_issuer(reader, found.get("issuer"), f"{path}.issuer"),
        claim_validation_rules=reader.items(
            found, "claimValidationRules", path, lambda v, p: _read_claim_rule(reader, v, p)
        ),
        username=_read_mapping(reader, mappings.get("username"), f"{at}.username"),
        groups=_read_mapping(reader, mappings.get("groups"), f"{at}.groups"),
        uid=_read_mapping(reader, mappings.get("uid"), f"{at}.uid", has_prefix=False),
        extra=reader.items(mappings, "extra", at, lambda v, p: _read_extra(reader, v, p)),
        user_validation_rules=reader.items(
            found, "userValidationRules", path, lambda v, p: _read_user_rule(reader, v, p)
        ),
    )


def _read_issuer(reader: _Reader, value: Any, path: str) -> Issuer:
    texts = (
        "url",
        "discoveryURL",
        "certificateAuthority",
        "audienceMatchPolicy",
        "egressSelectorType",
    )
    found = reader.object(value, path, (*texts, "audiences"))
    url, discovery, authority, policy, egress = (reader.text(found, n, path) for n in texts)
    audiences = reader.texts(found, "audiences", path)
    return Issuer(url, discovery, authority, audiences, policy, egress)


def _read_claim_rule(reader: _Reader, value: Any, path: str) -> ClaimRule:
    names = ("claim", "requiredValue", "expression", "message")
    found = reader.object(value, path, names)
    return ClaimRule(*(reader.text(found, name, path) for name in names))


def _read_mapping(
    reader: _Reader, value: Any, path: str, *, has_prefix: bool = True
) -> ClaimMapping:
    names = ("claim", "expression", "prefix") if has_prefix else ("claim", "expression")
    found = reader.object(value, path, names)
    prefix = reader.text(found, "prefix", path) if found.get("prefix") is not None else None
    return ClaimMapping(
        reader.text(found, "claim", path), reader.text(found, "expression", path), prefix
    )


def _read_extra(reader: _Reader, value: Any, path: str) -> ExtraMapping:
    found = reader.object(value, path, ("key", "valueExpression"))
    return ExtraMapping(
        reader.text(found, "key", path), reader.text(found, "valueExpression", path)
    )


def _read_user_rule(reader: _Reader, value: Any, path: str) -> UserRule:
    found = reader.object(value, path, ("expression", "message"))
    return UserRule(reader.text(found, "expression", path), reader.text(found, "message", path))
