"""Runs statements of the schema that are written once for both engines."""

import re
from typing import cast

from sqlalchemy import Connection

from agentjobs.store.database import Engine
from agentjobs.store.statements import render

_SQLITE_NAMES = {"BYTEA": "BLOB", "FALSE": "0"}


def run_statements(connection: Connection, script: str) -> None:
    engine = cast("Engine", connection.dialect.name)
    sql = render(engine, script).sql
    if engine == "sqlite":
        sql = re.sub(r"\b(BYTEA|FALSE)\b", lambda name: _SQLITE_NAMES[name[0]], sql)
    for statement in sql.split(";\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)
