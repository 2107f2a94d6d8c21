"""Filtering by terms: which values a query wants, told from their terms alone.

The same conditions are said twice: here for Python, and as SQL for the scans of
SQLite. The conformance suite holds both to the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykcp.storage.interface import TERM_SEPARATOR, Condition, Query

Predicate = Callable[[str], bool]


def holds(condition: Condition, terms: str) -> bool:
    for text in condition.any_of:
        if text in terms:
            return not condition.negated
    return condition.negated


def predicate(where: Sequence[Condition], residual: Predicate | None) -> Predicate | None:
    """One test for everything the query asks of the terms; None when it asks nothing."""
    if not where:
        return residual
    conditions = tuple(where)
    if residual is None:
        return lambda terms: all(holds(condition, terms) for condition in conditions)
    return lambda terms: (
        all(holds(condition, terms) for condition in conditions) and residual(terms)
    )


def is_filtered(query: Query) -> bool:
    return bool(query.where) or query.residual is not None


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
