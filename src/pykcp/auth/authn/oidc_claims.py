"""Maps verified claims to a user, by the configuration of an issuer. Pure.

Upstream's order and messages: name, groups, uid, extra, then the rules that claims and user must
satisfy. A claim that does not fit rejects the token; a user never has less than was configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykcp.auth.authn.config import ClaimMapping
from pykcp.auth.authn.config_expressions import (
    Expression,
    ExpressionError,
    claims_value,
    user_value,
)
from pykcp.auth.authn.config_validation import CompiledJwt
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.claims import credential_id
from pykcp.auth.user import CREDENTIAL_ID_KEY, User
from pykcp.machinery.status import go_quote

Claims = Mapping[str, Any]
_WORDS = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}
_WANT_TEXTS = "expression must return a string or a list of strings"


class _Unfit(Exception):
    """A claim that is not there, or not of the type that it should have."""


def user_from(compiled: CompiledJwt, claims: Claims) -> User:
    """Raises Rejected."""
    _refuse_distributed(compiled.config.groups, claims)
    value = claims_value(claims) if compiled.needs_claims_value else None
    name = _username(compiled, claims, value)
    groups = _groups(compiled, claims, value)
    uid = _uid(compiled, claims, value)
    user = User(name, uid, tuple(groups), _extra(compiled, claims, value))
    _check_required(compiled, claims)
    if compiled.claim_rules:
        _check_rules(compiled.claim_rules, value, "claim validation expression")
    if compiled.user_rules:
        _check_rules(compiled.user_rules, user_value(user), "user info validation rule")
    return user


def _refuse_distributed(groups: ClaimMapping, claims: Claims) -> None:
    """Reject distributed groups: they are not fetched, and the user would be authenticated without them."""
    elsewhere = claims.get("_claim_names")
    if not groups.claim or groups.claim in claims or not isinstance(elsewhere, dict):
        return
    if groups.claim in elsewhere:
        raise CredentialRejected(
            "oidc: could not expand distributed claims: distributed claims are not supported"
        )


def _username(compiled: CompiledJwt, claims: Claims, value: Any) -> str:
    if compiled.username is not None:
        name = _evaluate(compiled.username, value, "username claim expression")
        if not isinstance(name, str):
            raise CredentialRejected(
                "oidc: error evaluating username claim expression: "
                "username claim expression must return a string"
            )
        if not name:
            raise CredentialRejected("oidc: empty username via CEL expression is not allowed")
        return name
    mapping = compiled.config.username
    try:
        name = _text(claims, mapping.claim)
    except _Unfit as error:
        raise CredentialRejected(
            f"oidc: parse username claims {go_quote(mapping.claim)}: {error}"
        ) from error
    if mapping.claim == "email" and "email_verified" in claims:
        verified = claims["email_verified"]
        if verified is not None and not isinstance(verified, bool):
            raise CredentialRejected(
                f"oidc: parse 'email_verified' claim: {_mismatch(verified, 'bool')}"
            )
        if not verified:
            raise CredentialRejected("oidc: email not verified")
    if not name:  # upstream lets it through
        raise CredentialRejected(
            f"oidc: parse username claims {go_quote(mapping.claim)}: claim is empty"
        )
    return (mapping.prefix or "") + name


def _groups(compiled: CompiledJwt, claims: Claims, value: Any) -> list[str]:
    mapping = compiled.config.groups
    if mapping.claim and mapping.claim in claims:
        try:
            found = _text_or_texts(claims[mapping.claim])
        except _Unfit as error:
            raise CredentialRejected(
                f"oidc: parse groups claim {go_quote(mapping.claim)}: {error}"
            ) from error
        return [(mapping.prefix or "") + group for group in found]
    if compiled.groups is None:
        return []
    result = _evaluate(compiled.groups, value, "group claim expression")
    try:
        return _texts_of(result)
    except _Unfit as error:
        raise CredentialRejected(
            f"oidc: error evaluating group claim expression: {error}"
        ) from error


def _uid(compiled: CompiledJwt, claims: Claims, value: Any) -> str:
    claim = compiled.config.uid.claim
    if claim:
        try:
            return _text(claims, claim)
        except _Unfit as error:
            raise CredentialRejected(f"oidc: parse uid claim {go_quote(claim)}: {error}") from error
    if compiled.uid is None:
        return ""
    uid = _evaluate(compiled.uid, value, "uid claim expression")
    if not isinstance(uid, str):
        raise CredentialRejected(
            "oidc: error evaluating uid claim expression: uid claim expression must return a string"
        )
    return uid


def _extra(compiled: CompiledJwt, claims: Claims, value: Any) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    token_id = claims.get("jti")
    if isinstance(token_id, str) and token_id:
        extra[CREDENTIAL_ID_KEY] = (credential_id(token_id),)
    for key, expression in compiled.extra:
        try:
            found = _texts_of(expression.evaluate(value))
        except ExpressionError as error:
            raise CredentialRejected(str(error)) from error
        except _Unfit as error:
            raise CredentialRejected(
                f"oidc: error evaluating extra claim expression: {expression.text}: {error}"
            ) from error
        if found:
            extra[key] = tuple(found)
    return extra


def _check_required(compiled: CompiledJwt, claims: Claims) -> None:
    for rule in compiled.config.claim_validation_rules:
        claim = rule.claim
        if not claim:
            continue
        if claim not in claims:
            raise CredentialRejected(f"oidc: required claim {claim} not present in ID token")
        try:
            found = _text(claims, claim)
        except _Unfit as error:
            raise CredentialRejected(f"oidc: parse claim {claim}: {error}") from error
        if found != rule.required_value:
            raise CredentialRejected(
                f"oidc: required claim {claim} value does not match. "
                f"Got = {found}, want = {rule.required_value}"
            )


def _check_rules(rules: tuple[tuple[Expression, str], ...], value: Any, what: str) -> None:
    """All are evaluated before any is judged, as upstream does."""
    results = [
        (expression, message, _evaluate(expression, value, what)) for expression, message in rules
    ]
    for expression, message, holds in results:
        if not isinstance(holds, bool):
            raise CredentialRejected(
                f"oidc: error evaluating {what}: validation expression must return a boolean"
            )
        if not holds:
            raise CredentialRejected(
                f"oidc: error evaluating {what}: "
                f"validation expression '{expression.text}' failed: {message}"
            )


def _evaluate(expression: Expression, value: Any, what: str) -> Any:
    try:
        return expression.evaluate(value)
    except ExpressionError as error:
        raise CredentialRejected(f"oidc: error evaluating {what}: {error}") from error


# --- types of claims ----------------------------------------------------------


def _text(claims: Claims, name: str) -> str:
    if name not in claims:
        raise _Unfit("claim not present")
    value = claims[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Unfit(_mismatch(value, "string"))
    return value


def _text_or_texts(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list) and all(one is None or isinstance(one, str) for one in value):
        return [one or "" for one in value]
    if not isinstance(value, str):
        raise _Unfit(_mismatch(value, "string"))
    return [value]


def _texts_of(result: Any) -> list[str]:
    """What an expression for groups or extra may give: a text, texts or null; never ""."""
    if result is None:
        return []
    if isinstance(result, str):
        return [result] if result else []
    if not isinstance(result, list) or not all(isinstance(one, str) for one in result):
        raise _Unfit(_WANT_TEXTS)
    return [one for one in result if one]


def _mismatch(value: Any, wanted: str) -> str:
    return f"json: cannot unmarshal {json_word(value)} into Go value of type {wanted}"


def json_word(value: Any) -> str:
    """The kind of a JSON value in Go's words."""
    return _WORDS.get(type(value), "null")
