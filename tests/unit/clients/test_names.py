"""Looking up names that tenants chose."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading

import pytest

from pykcp.clients.names import THREADS, HostNames


class Resolver:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = threading.Event()
        self.answer.set()

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if "slow" in host:
            self.answer.wait(30)
        if "missing" in host:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ["192.0.2.1", "192.0.2.1", "2001:db8::1"]


async def test_what_was_found_is_remembered_for_a_moment() -> None:
    now, resolver = 0.0, Resolver()
    names = HostNames(resolver, lambda: now)
    expected = (ipaddress.ip_address("192.0.2.1"), ipaddress.ip_address("2001:db8::1"))
    assert await names.look_up("Host.test.", ["a"]) == expected
    assert await names.look_up("host.test", ["b"]) == expected
    now = 11.0
    await asyncio.gather(*(names.look_up("host.test", ["a"]) for _ in range(10)))
    assert resolver.asked == ["host.test"] * 2
    for _ in range(2):
        with pytest.raises(socket.gaierror):
            await names.look_up("missing.test", ["a"])
    assert resolver.asked.count("missing.test") == 1


async def test_addresses_are_not_looked_up() -> None:
    resolver = Resolver()
    names = HostNames(resolver)
    assert await names.look_up("::1", ["a"]) == (ipaddress.ip_address("::1"),)
    for text in ("", "x" * 254):
        with pytest.raises(socket.gaierror):
            await names.look_up(text, ["a"])
    assert resolver.asked == []


async def test_slow_name_servers_do_not_hold_up_others() -> None:
    resolver = Resolver()
    resolver.answer.clear()
    names = HostNames(resolver)
    slow = [
        asyncio.create_task(names.look_up(f"slow{n}.test", ["cluster mallory"]))
        for n in range(2 * THREADS)
    ]
    try:
        assert await asyncio.wait_for(names.look_up("quick.test", ["cluster other"]), 10)
        assert sum("slow" in host for host in resolver.asked) == THREADS // 2
        for task in slow:  # nobody waits any longer; the threads are taken all the same
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        again = asyncio.create_task(names.look_up("slow-again.test", ["cluster mallory"]))
        await asyncio.sleep(0)
        assert "slow-again.test" not in resolver.asked
    finally:
        resolver.answer.set()
    assert await asyncio.wait_for(again, 10)
