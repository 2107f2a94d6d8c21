"""Filtering by terms: selects the values of a query without decoding them.

The conditions are implemented twice: in `machinery.terms` in Python, and here in SQL for the
scans of SQLite. The conformance suite tests that both give the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pykcp.machinery.terms import matcher
from pykcp.storage.interface import TERM_SEPARATOR, Condition, Query


def is_filtered(query: Query) -> bool:
    return bool(query.where) or query.residual is not None


MOST_IN_SQL = 256
"""Substrings that one statement looks for: SQLite has limits, and gets slow before them."""


def split_for_sql(query: Query) -> Query:
    """The query with as many conditions as SQL should have; the others become its residual."""
    room = MOST_IN_SQL
    for number, condition in enumerate(query.where):
        room -= len(condition.any_of)
        if room < 0:
            rest = matcher(query.where[number:], query.residual)
            return replace(query, where=query.where[:number], residual=rest)
    return query


def sql_conditions(where: Sequence[Condition], column: str) -> tuple[str, list[str]]:
    """The conditions as SQL (each starting with ` AND `) and the parameters it needs."""
    clauses: list[str] = []
    parameters: list[str] = []
    for condition in where:
        tests = " OR ".join(f"instr({column}, ?) > 0" for _ in condition.any_of) or "0"
        clauses.append(f" AND {'NOT ' if condition.negated else ''}({tests})")
        parameters.extend(condition.any_of)
    return "".join(clauses), parameters


def join_indexes(indexes: tuple[str, ...]) -> str:
    """Index entries as one text, as the tables keep them."""
    for entry in indexes:
        if not entry or TERM_SEPARATOR in entry:
            raise ValueError(f"not an index entry: {entry!r}")
    return TERM_SEPARATOR.join(indexes)


def split_indexes(joined: str) -> list[str]:
    return joined.split(TERM_SEPARATOR) if joined else []
