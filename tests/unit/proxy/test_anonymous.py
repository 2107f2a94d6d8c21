"""What the front-proxy does with requests without credentials."""

from __future__ import annotations

import pytest

from pykcp.programs.front_proxy.options import GroupOptions
from pykcp.programs.front_proxy.sign_in import _denies_anonymous


@pytest.mark.parametrize(
    ("choice", "has_tokens", "denies"),
    [
        ("auto", False, False),
        ("auto", True, True),  # also if only a webhook or a configuration file brings them
        ("pass", True, False),
        ("deny", False, True),
    ],
)
def test_the_choice_of_the_administrator_counts(
    choice: str, has_tokens: bool, denies: bool
) -> None:
    assert _denies_anonymous(choice, has_tokens) is denies


def test_another_word_is_refused() -> None:
    (problem,) = GroupOptions(authentication_anonymous="maybe").problems()
    assert "must be auto, pass or deny" in problem
