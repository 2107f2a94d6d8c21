"""Debts: how they grow and shrink, and which accounts are kept."""

from __future__ import annotations

import pytest

from pykcp.server.filters import flow_cost
from pykcp.server.filters.flow_cost import Accounts, CostAccount

BURST = 0.1


def _account(share: float = 0.25) -> CostAccount:
    return CostAccount("user", "ann", share, BURST)


@pytest.mark.parametrize(
    ("costs", "at", "is_indebted"),
    [
        ([], 0.0, False),
        ([(0.0, 0.001)] * 90, 0.0, False),
        ([(0.0, 0.001)] * 110, 0.0, True),
        ([(0.0, 0.001)] * 110, 0.1, False),
        ([(0.0, 0.001)] * 200, 0.3, True),
        ([(0.0, 0.001)] * 200, 0.5, False),
        ([(second / 1000, 0.00025) for second in range(5000)], 5.0, False),
        ([(second / 1000, 0.0005) for second in range(5000)], 5.0, True),
        ([(0.0, 0.02)], 0.0, False),
    ],
    ids=[
        "nothing spent",
        "within the burst",
        "beyond the burst",
        "the rest is paid back",
        "more takes longer",
        "but not for ever",
        "the allowance, for long",
        "twice the allowance, for long",
        "a long step",
    ],
)
def test_who_is_indebted(costs: list[tuple[float, float]], at: float, is_indebted: bool) -> None:
    account = _account()
    for now, seconds in costs:
        account.charge(seconds, now)
    assert account.is_indebted(at) is is_indebted


def test_after_a_long_step_an_account_rests_for_as_long() -> None:
    account = _account()
    account.charge(0.001, 5.0)
    assert account.rests_until == 0.0
    account.charge(0.02, 6.0)
    assert account.rests_until == pytest.approx(6.02)


def test_some_are_never_indebted_and_counted_all_the_same() -> None:
    account = _account(share=0)
    for _ in range(10):
        account.charge(1.0, 0.0)
    assert not account.is_indebted(0.0)
    assert (account.total, account.debt(0.0)) == (10.0, 0.0)


def test_debt_is_told_in_seconds_on_the_loop() -> None:
    account = _account(share=0.25)
    account.charge(0.002, 10.0)
    account.charge(0.002, 10.0)
    assert account.debt(10.0) == pytest.approx(0.004)
    assert account.debt(10.008) == pytest.approx(0.002)
    assert account.debt(11.0) == 0.0


def _sweep(accounts: Accounts, start: float, count: int) -> float:
    for _ in range(count):
        start += flow_cost.SWEEP_SECONDS
        accounts.sweep(start)
    return start


def test_costs_fade_and_accounts_go() -> None:
    accounts = Accounts(BURST)
    accounts.open("user", "ann", 0.25, 0.0).charge(0.5, 0.0)
    accounts.open("user", "bob", 0.25, 0.0).charge(0.6, 0.0)
    accounts.open("address", "here", 0.25, 0.0).charge(0.000001, 0.0)
    assert [one.name for one in accounts.top(2)] == ["bob", "ann"]
    now = _sweep(accounts, 0.0, 6)
    assert set(accounts.by_name) == {"ann", "bob"}
    assert 0.1 < accounts.by_name["ann"].last_minute < 0.25
    accounts.by_name["ann"].charge(0.7, now)
    assert [one.name for one in accounts.top(9)] == ["ann", "bob"]
    _sweep(accounts, now, 100)
    assert accounts.by_name == {}
    assert accounts.totals() == pytest.approx({"user": 1.8, "address": 0.000001})


def test_debts_do_not_grow_without_end() -> None:
    accounts = Accounts(BURST)
    account = accounts.open("user", "ann", 0.25, 0.0)
    account.charge(3600.0, 0.0)
    accounts.sweep(0.0)
    assert account.is_indebted(7.9)
    assert not account.is_indebted(8.1)


def test_accounts_of_made_up_names_push_each_other_out() -> None:
    accounts = Accounts(BURST)
    accounts.open("user", "ann", 0.25, 0.0).charge(10.0, 0.0)
    for number in range(3 * flow_cost.MOST_ACCOUNTS):
        accounts.open("address", f"a{number}", 0.1, 1.0).charge(0.00001, 1.0)
        assert len(accounts.by_name) <= flow_cost.MOST_ACCOUNTS + 1
        if number % 1000 == 0:
            for one in accounts.by_name.values():
                if one.sort == "address":
                    one.free_at = 0.0  # time goes by
    assert "ann" in accounts.by_name
