"""Schemas of authentication, authorization and audit."""

from __future__ import annotations

from pykcp.programs.operator.kinds.parts import (
    DURATION,
    flag,
    listed,
    number,
    record,
    text,
)

OIDC = record(
    {
        "issuerURL": text("Issuer of tokens."),
        "clientID": text("Audience of tokens."),
        "clientSecret": text("Not used."),
        "groupsClaim": text("Claim that holds groups."),
        "usernameClaim": text("Claim that holds the user's name.", default="sub"),
        "groupsPrefix": text("Prefix of groups.", default="oidc:"),
        "usernamePrefix": text("Prefix of user names.", default="oidc:"),
        "caFileRef": record(
            {"name": text("Secret."), "key": text("Its key.", default="ca.crt")},
            "Authority of the issuer's server.",
            required=("name",),
        ),
    },
    "OpenID Connect.",
    required=("issuerURL", "clientID"),
)
TOKEN_WEBHOOK = record(
    {
        "configSecretName": text("Secret with the key kubeconfig."),
        "cacheAuthenticationTTL": DURATION,
        "version": text(enum=["v1beta1", "v1"]),
    },
    "Webhook that authenticates tokens.",
    required=("configSecretName",),
)
TOKEN_FILE = record(
    {"secretName": text("Secret."), "key": text("Its key.", default="token.csv")},
    'CSV of static tokens: token,user,uid,"group1,group2".',
    required=("secretName",),
)
CONFIG_FILE = record(
    {"configMap": record({"name": text(), "key": text(default="config.yaml")}, required=("name",))},
    "File with an AuthenticationConfiguration; excludes oidc.",
    required=("configMap",),
)
AUTH = record(
    {
        "oidc": OIDC,
        "webhook": TOKEN_WEBHOOK,
        "tokenAuthFile": TOKEN_FILE,
        "configuration": CONFIG_FILE,
        "serviceAccount": record(
            {"enabled": flag("Accept tokens of service accounts of all shards.")}
        ),
        "dropGroups": listed(
            text(), "Groups that front-proxies do not pass on, besides those that protect shards."
        ),
        "passOnGroups": listed(text(), "Groups that front-proxies pass on; all if empty."),
        "keepGroups": listed(
            text(), "Groups that protect shards and are passed on all the same; with care."
        ),
        "anonymous": text(
            "What front-proxies do with requests without credentials.",
            enum=["Pass", "Deny"],
        ),
    },
    "Authentication.",
    rules=(
        (
            "!(has(self.oidc) && has(self.configuration))",
            "oidc and configuration are mutually exclusive",
        ),
    ),
)
AUTHORIZATION = record(
    {
        "webhook": record(
            {
                "allowPaths": listed(text(), "Paths that need no authorization."),
                "cacheAuthorizedTTL": DURATION,
                "cacheUnauthorizedTTL": DURATION,
                "configSecretName": text("Secret with the key kubeconfig."),
                "version": text(),
            }
        )
    }
)
AUDIT = record(
    {
        "policy": record(
            {
                "configMap": record(
                    {"name": text(), "key": text(default="audit-policy.yaml")},
                    required=("name",),
                )
            }
        ),
        "log": record(
            {
                "path": text("File; - is the standard output.", default="-"),
                "format": text(enum=["json", "legacy"]),
                "maxAge": number(),
                "maxBackups": number(),
                "maxSize": number(),
            },
            "Events as lines of a file.",
        ),
        "webhook": record(
            {
                "configSecretName": text("Secret with the key kubeconfig."),
                "mode": text(enum=["", "batch", "blocking", "blocking-strict"]),
                "batchBufferSize": number(),
                "batchMaxSize": number(),
                "batchMaxWait": DURATION,
                "batchThrottleBurst": number(),
                "batchThrottleEnable": flag(),
                "batchThrottleQPS": text(),
                "initialBackoff": DURATION,
                "truncateEnabled": flag(),
                "truncateMaxBatchSize": number(),
                "truncateMaxEventSize": number(),
                "version": text(),
            }
        ),
    },
    "Audit events.",
)
ENCRYPTION = record(
    {
        "configSecretRef": record(
            {"name": text("Secret."), "key": text(default="encryption.yaml")}, required=("name",)
        )
    },
    "Encryption at rest: a Secret with an EncryptionConfiguration, reloaded when it changes.",
    required=("configSecretRef",),
)
