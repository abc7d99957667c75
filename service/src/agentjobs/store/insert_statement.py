"""Statements that insert rows, made from the columns."""

from collections.abc import Mapping, Sequence

from agentjobs.store.batch_statement import BatchStatement


def insert_statement(
    table: str, types: Mapping[str, str], *, key: Sequence[str] = ()
) -> BatchStatement:
    """A row with the same `key` gets the new values; without one, existing rows stay as they are.

    `types` are the PostgreSQL types of the columns.
    """
    names = ", ".join(types)
    values = ", ".join(f":{name}" for name in types)
    changes = ", ".join(f"{name} = excluded.{name}" for name in types if name not in key)
    existing = f"({', '.join(key)}) DO UPDATE SET {changes}" if key else "DO NOTHING"
    return BatchStatement(
        types,
        one=f"INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT {existing}",
        many=f"INSERT INTO {table} ({names}) SELECT {names} FROM {{rows}} ON CONFLICT {existing}",
    )
