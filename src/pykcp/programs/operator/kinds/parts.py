"""Parts that the schemas of several kinds share."""

from __future__ import annotations

from typing import Any

from pykcp.types import Object

IMAGE_REPOSITORY = "ghcr.io/kcp-dev/kcp"
IMAGE_TAG = "v0.32.3"


def is_kcp_image(image: str) -> bool:
    """Whether it is upstream's, also in a mirror: its programs lack flags that ours have."""
    repository = image.partition("@")[0]
    head, colon, tag = repository.rpartition(":")
    name = head if colon and "/" not in tag else repository
    return f"/{name}".endswith("/kcp-dev/kcp")


def text(description: str = "", **more: Any) -> Object:
    return _described({"type": "string", **more}, description)


def number(description: str = "", **more: Any) -> Object:
    return _described({"type": "integer", **more}, description)


def flag(description: str = "", **more: Any) -> Object:
    return _described({"type": "boolean", **more}, description)


def record(
    properties: Object,
    description: str = "",
    *,
    required: tuple[str, ...] = (),
    rules: tuple[tuple[str, str], ...] = (),
    **more: Any,
) -> Object:
    """An object with these fields; `rules`: CEL expressions and what they say if they fail."""
    made: Object = {"type": "object", "properties": properties, **more}
    if required:
        made["required"] = list(required)
    if rules:
        made["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in rules
        ]
    return _described(made, description)


def listed(items: Object, description: str = "", **more: Any) -> Object:
    return _described({"type": "array", "items": items, **more}, description)


def mapped(values: Object, description: str = "") -> Object:
    return _described({"type": "object", "additionalProperties": values}, description)


def free(description: str = "") -> Object:
    """An object of Kubernetes that is passed on as it is."""
    return _described({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, description)


def _described(schema: Object, description: str) -> Object:
    return {"description": description, **schema} if description else schema


STRINGS = mapped({"type": "string"})
NAME_REFERENCE = record({"name": text()}, required=("name",))
PORT = number(minimum=1, maximum=65535)
DURATION = text(pattern=r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$")
METADATA = record({"annotations": STRINGS, "labels": STRINGS})
FREE_LIST = listed(free())
QUANTITIES = mapped({"x-kubernetes-int-or-string": True})

IMAGE = record(
    {
        "repository": text("Image without its tag.", default=IMAGE_REPOSITORY),
        "tag": text("Version to run.", default=IMAGE_TAG),
        "imagePullSecrets": listed(record({"name": text()})),
    },
    "What to run.",
    default={},
)
_OWN_PARTS: Object = {
    name: {key: value for key, value in part.items() if key != "default"}
    for name, part in IMAGE["properties"].items()
}
INHERITED_IMAGE = record(_OWN_PARTS, "What to run; what is not set is that of the whole.")
RESOURCES = record(
    {"requests": QUANTITIES, "limits": QUANTITIES, "claims": FREE_LIST},
    "Requests and limits; each key overrides its default.",
)
ETCD = record(
    {
        "endpoints": listed(text(), "URLs of etcd.", minItems=1),
        "prefix": text("Prefix of all keys."),
        "tlsConfig": record(
            {"secretRef": NAME_REFERENCE},
            "Secret with tls.crt, tls.key and ca.crt.",
            required=("secretRef",),
        ),
    },
    "etcd of this component. Without it the store is a file in a directory of the component, "
    "which has one replica then.",
    required=("endpoints",),
)
EXTERNAL = record(
    {
        "hostname": text("Name that users reach."),
        "port": PORT,
        "privateHostname": text("Name that components of the installation reach instead."),
        "privatePort": PORT,
    },
    "Where users reach it.",
    required=("hostname", "port"),
)
ISSUER = record({"name": text(), "kind": text(), "group": text()}, required=("name",))
CERTIFICATES = record(
    {
        "issuerRef": ISSUER,
        "caSecretRef": record({"name": text()}, "Secret of an authority, of any name.", required=("name",)),
    },
    "Where the root authority comes from. With neither, and without cert-manager, it is made.",
    rules=(
        (
            "!(has(self.issuerRef) && has(self.caSecretRef))",
            "issuerRef and caSecretRef are mutually exclusive",
        ),
    ),
)  # fmt: skip
CERTIFICATE_TEMPLATE = record(
    {
        "metadata": METADATA,
        "spec": record(
            {
                "subject": record(
                    {
                        **{
                            field: listed(text())
                            for field in (
                                "organizations", "countries", "organizationalUnits", "localities",
                                "provinces", "streetAddresses", "postalCodes",
                            )
                        },
                        "serialNumber": text(),
                    }
                ),
                "issuerRef": ISSUER,
                "dnsNames": listed(text()),
                "ipAddresses": listed(text()),
                "secretTemplate": METADATA,
                "duration": DURATION,
                "renewBefore": DURATION,
                "privateKey": record(
                    {
                        "rotationPolicy": text(enum=["Never", "Always"]),
                        "encoding": text(enum=["PKCS1", "PKCS8"]),
                        "algorithm": text(enum=["RSA", "ECDSA", "Ed25519"]),
                        "size": number(),
                    }
                ),
            }
        ),
    }
)  # fmt: skip
CERTIFICATE_TEMPLATES = mapped(CERTIFICATE_TEMPLATE, "Changes to certificates, by their kind.")
SERVICE_TEMPLATE = record(
    {
        "metadata": METADATA,
        "spec": record(
            {
                "type": text(enum=["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
                "clusterIP": text(),
                "loadBalancerClass": text(),
            }
        ),
    }
)
POD_FIELDS = {
    "nodeSelector": STRINGS,
    "affinity": free(),
    "tolerations": FREE_LIST,
    "hostAliases": FREE_LIST,
    "imagePullSecrets": listed(record({"name": text()})),
    "topologySpreadConstraints": FREE_LIST,
    "resourceClaims": FREE_LIST,
}
DEPLOYMENT_TEMPLATE = record(
    {
        "metadata": METADATA,
        "spec": record({"template": record({"metadata": METADATA, "spec": record(POD_FIELDS)})}),
    }
)
LOGGING = record({"level": number("Verbosity, -v.", minimum=0, maximum=10)})
EXTRAS = {
    "extraArgs": listed(text(), "Arguments after those that are made."),
    "extraVolumes": FREE_LIST,
    "extraVolumeMounts": FREE_LIST,
}
WORKLOAD = {
    "image": IMAGE,
    "replicas": number("Number of processes.", minimum=0),
    "serviceTemplate": SERVICE_TEMPLATE,
    "deploymentTemplate": DEPLOYMENT_TEMPLATE,
    "certificateTemplates": CERTIFICATE_TEMPLATES,
    "logging": LOGGING,
    **EXTRAS,
}
"""What all workloads have."""

CONDITIONS = listed(
    record(
        {
            "type": text(),
            "status": text(enum=["True", "False", "Unknown"]),
            "observedGeneration": number(),
            "lastTransitionTime": text(format="date-time"),
            "reason": text(),
            "message": text(),
        },
        required=("type", "status"),
    ),
)
CONDITIONS |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
PHASE = text()
ADDRESSES = listed(text(), "URLs at which it is reached.")
CERTIFICATE_STATUS = listed(
    record({"name": text(), "notAfter": text(), "renewalTime": text(), "revision": number()}),
    "Certificates, until when they are valid and when they are renewed.",
)
