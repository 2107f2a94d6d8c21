"""Validation of an AuthenticationConfiguration, with upstream's messages; compiles its expressions."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pykcp.auth.authn.config import (
    AuthenticationConfig,
    AuthenticationConfigError,
    ClaimMapping,
    Issuer,
    JwtConfig,
)
from pykcp.auth.authn.config_expressions import (
    Expression,
    ExpressionError,
    compile_claims,
    compile_user,
)
from pykcp.auth.errors import aggregate
from pykcp.machinery import names
from pykcp.machinery.status import (
    FieldError,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    required,
    too_many,
)

_MAX_ISSUERS = 64
_MATCH_ANY = "MatchAny"
_HTTP_PATH = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+"
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_EMAIL_RULE = (
    "claims.email_verified must be used in claimMappings.username.expression or "
    "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when "
    "claims.email is used in claimMappings.username.expression"
)


@dataclass(frozen=True, slots=True)
class CompiledJwt:
    """An issuer's configuration with its expressions, ready to be used."""

    config: JwtConfig
    claim_rules: tuple[tuple[Expression, str], ...] = ()
    """Conditions on claims, each with its message."""
    username: Expression | None = None
    groups: Expression | None = None
    uid: Expression | None = None
    extra: tuple[tuple[str, Expression], ...] = ()
    user_rules: tuple[tuple[Expression, str], ...] = ()

    @property
    def needs_claims_value(self) -> bool:
        return bool(self.claim_rules or self.username or self.groups or self.uid or self.extra)


def compile_config(
    config: AuthenticationConfig, disallowed_issuers: Collection[str] = ()
) -> tuple[CompiledJwt, ...]:
    """The issuers, ready to be used. Raises ConfigError with everything that is wrong."""
    compiled, errors = check_config(config, disallowed_issuers)
    raise_errors(errors)
    return compiled


def raise_errors(errors: Sequence[FieldError]) -> None:
    if errors:
        raise AuthenticationConfigError(
            "invalid authentication configuration: " + aggregate([one.text() for one in errors])
        )


def check_config(
    config: AuthenticationConfig, disallowed_issuers: Collection[str] = ()
) -> tuple[tuple[CompiledJwt, ...], list[FieldError]]:
    if len(config.jwt) > _MAX_ISSUERS:
        return (), [too_many("jwt", len(config.jwt), _MAX_ISSUERS)]
    errors: list[FieldError] = []
    compiled: list[CompiledJwt] = []
    urls: set[str] = set()
    discovery_urls: set[str] = set()
    for i, jwt in enumerate(config.jwt):
        checker = _Checker(jwt, f"jwt[{i}]", disallowed_issuers)
        compiled.append(checker.check())
        errors += checker.errors
        issuer, path = jwt.issuer, f"jwt[{i}].issuer"
        if issuer.url in urls:
            errors.append(duplicate(f"{path}.url", issuer.url))
        urls.add(issuer.url)
        if issuer.discovery_url and issuer.discovery_url in discovery_urls:
            errors.append(duplicate(f"{path}.discoveryURL", issuer.discovery_url))
        discovery_urls.add(issuer.discovery_url)
    anonymous = config.anonymous
    if anonymous is not None and anonymous.paths and not anonymous.enabled:
        shown = [{"Path": path} for path in anonymous.paths]
        why = "enabled should be set to true when conditions are defined"
        errors.append(invalid("anonymous.conditions", shown, why))
    return tuple(compiled), errors


class _Checker:
    """Checks one issuer."""

    def __init__(self, jwt: JwtConfig, path: str, disallowed: Collection[str]) -> None:
        self._jwt = jwt
        self._path = f"{path}." if path else ""
        self._disallowed = disallowed
        self.errors: list[FieldError] = []

    def check(self) -> CompiledJwt:
        jwt, path = self._jwt, self._path
        self.errors += _issuer_errors(jwt.issuer, f"{path}issuer", self._disallowed)
        claim_rules = self._claim_rules(f"{path}claimValidationRules")
        at = f"{path}claimMappings"
        username = self._prefixed(jwt.username, f"{at}.username", is_required=True)
        groups = self._prefixed(jwt.groups, f"{at}.groups", is_required=False)
        uid = self._uid(f"{at}.uid")
        extra = self._extra(f"{at}.extra")
        self._check_email(at, username, [e for e, _ in claim_rules], [e for _, e in extra])
        user_rules = self._user_rules(f"{path}userValidationRules")
        return CompiledJwt(jwt, claim_rules, username, groups, uid, extra, user_rules)

    def _compile(self, path: str, text: str, *, is_condition: bool = False) -> Expression | None:
        try:
            return compile_claims(text, is_condition=is_condition)
        except ExpressionError as error:
            self.errors.append(invalid(path, text, str(error)))
            return None

    def _claim_rules(self, path: str) -> tuple[tuple[Expression, str], ...]:
        claims: set[str] = set()
        expressions: set[str] = set()
        compiled: list[tuple[Expression, str]] = []
        for i, rule in enumerate(self._jwt.claim_validation_rules):
            at = f"{path}[{i}]"
            if rule.claim and rule.expression:
                self.errors.append(
                    invalid(at, rule.claim, "claim and expression can't both be set")
                )
            elif rule.claim:
                if rule.message:
                    why = "may not be specified when claim is set"
                    self.errors.append(invalid(f"{at}.message", rule.message, why))
                if rule.claim in claims:
                    self.errors.append(duplicate(f"{at}.claim", rule.claim))
                claims.add(rule.claim)
            elif rule.expression:
                if rule.required_value:
                    why = "may not be specified when expression is set"
                    self.errors.append(invalid(f"{at}.requiredValue", rule.required_value, why))
                if rule.expression in expressions:
                    self.errors.append(duplicate(f"{at}.expression", rule.expression))
                    continue
                expressions.add(rule.expression)
                found = self._compile(f"{at}.expression", rule.expression, is_condition=True)
                if found is not None:
                    compiled.append((found, rule.message))
            else:
                self.errors.append(required(at, "claim or expression is required"))
        return tuple(compiled)

    def _prefixed(
        self, mapping: ClaimMapping, path: str, *, is_required: bool
    ) -> Expression | None:
        if mapping.expression and mapping.claim:
            self.errors.append(invalid(path, "", "claim and expression can't both be set"))
        elif mapping.expression:
            if mapping.prefix is not None:
                why = "may not be specified when expression is set"
                self.errors.append(invalid(f"{path}.prefix", mapping.prefix, why))
            return self._compile(f"{path}.expression", mapping.expression)
        elif mapping.claim:
            if mapping.prefix is None:
                why = (
                    "prefix is required when claim is set. It can be set to an empty string to "
                    "disable prefixing"
                )
                self.errors.append(required(f"{path}.prefix", why))
        elif is_required:
            self.errors.append(required(path, "claim or expression is required"))
        return None

    def _uid(self, path: str) -> Expression | None:
        uid = self._jwt.uid
        if uid.claim and uid.expression:
            self.errors.append(invalid(path, "", "claim and expression can't both be set"))
        elif uid.expression:
            return self._compile(f"{path}.expression", uid.expression)
        return None

    def _extra(self, path: str) -> tuple[tuple[str, Expression], ...]:
        seen: set[str] = set()
        compiled: list[tuple[str, Expression]] = []
        for i, mapping in enumerate(self._jwt.extra):
            at, key = f"{path}[{i}]", mapping.key
            self.errors += _extra_key_errors(key, f"{at}.key")
            if key in seen:
                self.errors.append(duplicate(f"{at}.key", key))
                continue
            seen.add(key)
            if not mapping.value_expression:
                self.errors.append(required(f"{at}.valueExpression"))
                continue
            found = self._compile(f"{at}.valueExpression", mapping.value_expression)
            if found is not None:
                compiled.append((key, found))
        return tuple(compiled)

    def _check_email(
        self,
        path: str,
        username: Expression | None,
        rules: list[Expression],
        extra: list[Expression],
    ) -> None:
        """A username expression that uses the email must check that it was verified."""
        if username is None or not username.selects("email"):
            return
        if not any(one.selects("email_verified") for one in (username, *rules, *extra)):
            self.errors.append(invalid(f"{path}.username.expression", username.text, _EMAIL_RULE))

    def _user_rules(self, path: str) -> tuple[tuple[Expression, str], ...]:
        seen: set[str] = set()
        compiled: list[tuple[Expression, str]] = []
        for i, rule in enumerate(self._jwt.user_validation_rules):
            at = f"{path}[{i}].expression"
            if not rule.expression:
                self.errors.append(required(at))
                continue
            if rule.expression in seen:
                self.errors.append(duplicate(at, rule.expression))
                continue
            seen.add(rule.expression)
            try:
                compiled.append((compile_user(rule.expression), rule.message))
            except ExpressionError as error:
                self.errors.append(invalid(at, rule.expression, str(error)))
        return tuple(compiled)


# --- the issuer ---------------------------------------------------------------


def _issuer_errors(issuer: Issuer, path: str, disallowed: Collection[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if issuer.url:
        errors += _url_errors(issuer.url, f"{path}.url", disallowed)
    else:
        errors.append(required(f"{path}.url"))
    discovery = issuer.discovery_url
    if discovery:
        at = f"{path}.discoveryURL"
        if issuer.url and issuer.url.rstrip("/") == discovery.rstrip("/"):
            errors.append(invalid(at, discovery, "discoveryURL must be different from URL"))
        errors += _url_errors(discovery, at, ())
    errors += _audience_errors(issuer, path)
    if issuer.certificate_authority and not _has_certificates(issuer.certificate_authority):
        why = "data does not contain any valid RSA or ECDSA certificates"
        errors.append(invalid(f"{path}.certificateAuthority", "<omitted>", why))
    if issuer.egress_selector_type:
        at, egress = f"{path}.egressSelectorType", issuer.egress_selector_type
        if egress not in ("controlplane", "cluster"):
            why = "egress selector must be either controlplane or cluster"
            errors.append(invalid(at, egress, why))
        else:
            errors.append(forbidden(at, "this server has no egress selectors"))
    return errors


def _url_errors(url: str, path: str, disallowed: Collection[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if url in disallowed:
        shown = " ".join(sorted(disallowed))
        why = f"URL must not overlap with disallowed issuers: [{shown}]"
        errors.append(invalid(path, url, why))
    escape = _BAD_ESCAPE.search(url)
    problem = f"invalid URL escape {go_quote(escape.group())}" if escape else ""
    try:
        parsed = urlsplit(url)
    except ValueError as error:
        parsed, problem = urlsplit(""), problem or str(error)
    if problem:
        return [*errors, invalid(path, url, f"parse {go_quote(url)}: {problem}")]
    if parsed.scheme != "https":
        errors.append(invalid(path, url, "URL scheme must be https"))
    if "@" in parsed.netloc:
        errors.append(invalid(path, url, "URL must not contain a username or password"))
    if parsed.query:
        errors.append(invalid(path, url, "URL must not contain a query"))
    if parsed.fragment:
        errors.append(invalid(path, url, "URL must not contain a fragment"))
    return errors


def _audience_errors(issuer: Issuer, path: str) -> list[FieldError]:
    audiences, policy = issuer.audiences, issuer.audience_match_policy
    at, policy_path = f"{path}.audiences", f"{path}.audienceMatchPolicy"
    if not audiences:
        return [required(at, f"at least one {at} is required")]
    errors: list[FieldError] = []
    for i, audience in enumerate(audiences):
        if not audience:
            errors.append(required(f"{at}[{i}]"))
        if audience in audiences[:i]:
            errors.append(duplicate(f"{at}[{i}]", audience))
    if len(audiences) > 1 and policy != _MATCH_ANY:
        why = "audienceMatchPolicy must be MatchAny for multiple audiences"
        errors.append(invalid(policy_path, policy, why))
    if len(audiences) == 1 and policy not in ("", _MATCH_ANY):
        why = "audienceMatchPolicy must be empty or MatchAny for single audience"
        errors.append(invalid(policy_path, policy, why))
    return errors


def _has_certificates(pem: str) -> bool:
    from cryptography import x509

    try:
        return bool(x509.load_pem_x509_certificates(pem.encode()))
    except ValueError:
        return False


def _extra_key_errors(key: str, path: str) -> list[FieldError]:
    errors = _domain_path_errors(key, path)
    if key != key.lower():
        errors.append(invalid(path, key, "must be lowercase"))
    domain, slash, _ = key.partition("/")
    owned = ("kubernetes.io", "k8s.io")
    if slash and any(domain == one or domain.endswith(f".{one}") for one in owned):
        why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        errors.append(invalid(path, key, why))
    return errors


def _domain_path_errors(key: str, path: str) -> list[FieldError]:
    if not key:
        return [required(path)]
    host, _, rest = key.partition("/")
    if not host or not rest:
        return [invalid(path, key, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, host, why) for why in names.dns1123_subdomain(host)]
    if not re.fullmatch(_HTTP_PATH, rest):
        why = f"Invalid path (regex used for validation is '{_HTTP_PATH}')"
        errors.append(invalid(path, rest, why))
    return errors
