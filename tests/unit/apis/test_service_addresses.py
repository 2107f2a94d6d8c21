"""Which cluster IPs and node ports services get, as a table of what kube-apiserver 1.36 answers."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pytest

from pykcp.apis.kube.workloads.service_addresses import allocate, held_by, read_ranges
from pykcp.machinery.status import StatusError
from pykcp.types import Object

RANGES = read_ranges("10.0.0.0/24", "30000-32767")
PORTS = [{"port": 80}]
USED = {"10.0.0.50", 30080}


class Pool:
    def is_free(self, value: str | int) -> bool:
        return value not in USED

    def pick_address(self) -> str | None:
        return "10.0.0.200"

    def pick_port(self, used: Collection[int]) -> int | None:
        return 31000


class Full(Pool):
    def pick_address(self) -> str | None:
        return None

    def pick_port(self, used: Collection[int]) -> int | None:
        return None


def service(**spec: Any) -> Object:
    ports = [dict(port) for port in spec.pop("ports", PORTS)]
    return {"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "ports": ports, **spec}}


def allocated(given: Object, old: Object | None = None) -> Object:
    allocate(given, old, RANGES, Pool())
    spec: Object = given["spec"]
    return spec


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"clusterIP": "10.0.0.200", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
        ({"clusterIP": "10.0.0.7"}, {"clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"]}),
        (
            {"clusterIP": "None"},
            {"clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"},
        ),
        ({"clusterIP": "None", "selector": {"a": "b"}}, {"ipFamilies": ["IPv4"]}),
        ({"ipFamilyPolicy": "PreferDualStack"}, {"ipFamilies": ["IPv4"]}),
        ({"type": "NodePort"}, {"ports": [{"port": 80, "nodePort": 31000}]}),
        ({"type": "LoadBalancer"}, {"ports": [{"port": 80, "nodePort": 31000}]}),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, {"ports": PORTS}),
        ({"type": "ExternalName", "externalName": "a.b"}, {"ports": PORTS}),
    ],
)  # fmt: skip
def test_new_services(spec: Object, expected: Object) -> None:
    made = allocated(service(**spec))
    assert {name: made.get(name) for name in expected} == expected


def test_protocols_of_one_port_share_a_node_port() -> None:
    ports = [{"name": "a", "port": 53, "nodePort": 30053}, {"name": "b", "port": 53}]
    made = allocated(service(type="NodePort", ports=ports))
    assert [port["nodePort"] for port in made["ports"]] == [30053, 30053]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"clusterIP": "10.0.0.50"}, 'spec.clusterIPs: Invalid value: ["10.0.0.50"]: failed to allocate IP 10.0.0.50: provided IP is already allocated'),
        ({"clusterIP": "10.9.0.5"}, 'spec.clusterIPs: Invalid value: ["10.9.0.5"]: failed to allocate IP 10.9.0.5: the provided network does not match the current range'),
        ({"clusterIP": "10.0.0.255"}, 'spec.clusterIPs: Invalid value: ["10.0.0.255"]: failed to allocate IP 10.0.0.255: the provided network does not match the current range'),
        ({"clusterIP": "bad"}, 'spec.clusterIPs[0]: Invalid value: "bad": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'),
        ({"clusterIPs": ["10.0.0.5"]}, 'spec.clusterIPs: Invalid value: ["10.0.0.5"]: must be empty when `clusterIP` is not specified'),
        ({"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.6"]}, 'spec.clusterIPs: Invalid value: ["10.0.0.6"]: first value must match `clusterIP`'),
        ({"clusterIP": "fd00::1"}, 'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster'),
        ({"ipFamilyPolicy": "RequireDualStack"}, 'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'),
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
        ({"ipFamilies": ["IPv4", "IPv6"]}, "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"),
        ({"ipFamilies": ["IPv4", "IPv4"]}, 'spec.ipFamilies[1]: Duplicate value: "IPv4"'),
        ({"ipFamilyPolicy": "Bad"}, 'spec.ipFamilyPolicy: Unsupported value: "Bad": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"'),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}, "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}, "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30091}, {"port": 81, "nodePort": 30091}]}, "spec.ports[1].nodePort: Invalid value: 30091: provided port is already allocated"),
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30080}, "Internal error occurred: failed to allocate requested HealthCheck NodePort 30080: provided port is already allocated"),
    ],
)  # fmt: skip
def test_what_is_rejected(spec: Object, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        allocated(service(**spec))
    assert caught.value.message.endswith(message)


def test_full_ranges() -> None:
    for spec in ({}, {"type": "NodePort", "clusterIP": "10.0.0.9"}):
        with pytest.raises(StatusError, match="range is full"):
            allocate(service(**spec), None, RANGES, Full())


OLD = service(
    type="NodePort", clusterIP="10.0.0.9", clusterIPs=["10.0.0.9"], ipFamilies=["IPv4"],
    ipFamilyPolicy="SingleStack", ports=[{"port": 80, "nodePort": 30009}],
)  # fmt: skip


def test_an_update_keeps_what_it_does_not_name() -> None:
    made = allocated(service(type="NodePort"), OLD)
    assert (made["clusterIP"], made["ports"][0]["nodePort"]) == ("10.0.0.9", 30009)
    assert made["ipFamilyPolicy"] == "SingleStack"


def test_types_give_up_what_they_do_not_need() -> None:
    spec = {**OLD["spec"], "ports": [dict(OLD["spec"]["ports"][0])]}
    internal = allocated(service(**{**spec, "type": "ClusterIP"}), OLD)
    assert internal["ports"] == PORTS
    assert internal["clusterIP"] == "10.0.0.9"
    external = allocated(service(**{**spec, "type": "ExternalName"}), OLD)
    assert {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}.isdisjoint(external)


def test_what_a_service_holds() -> None:
    assert held_by(OLD) == {"10.0.0.9", 30009}
    assert held_by(service(clusterIP="None", clusterIPs=["None"])) == set()


@pytest.mark.parametrize(
    ("addresses", "ports"),
    [("10.0.0.0/33", "1-2"), ("10.0.0.0/30", "1-2"), ("10.0.0.0/24", "9-1"), ("x", "1-2")],
)
def test_wrong_ranges(addresses: str, ports: str) -> None:
    with pytest.raises(ValueError):
        read_ranges(addresses, ports)


def test_many_ports_take_linear_time() -> None:
    """And so do many families and addresses, which are all wrong."""
    ports = [{"port": n, "name": f"p{n}"} for n in range(20_000)]
    families, addresses = ["IPv4"] * 300_000, ["fd00::1"] * 300_000
    began = time.process_time()
    allocate(service(type="LoadBalancer", ports=ports), None, RANGES, Pool())
    for spec in (
        {"ipFamilies": families},
        {"clusterIP": "fd00::1", "clusterIPs": addresses, "ipFamilyPolicy": "PreferDualStack"},
    ):
        with pytest.raises(StatusError):
            allocate(service(**spec), None, RANGES, Pool())
    assert time.process_time() - began < 2
