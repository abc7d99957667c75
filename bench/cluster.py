"""A private PostgreSQL cluster with durable settings."""

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

from tests.support import postgres

_AS_SHIPPED = {"max_connections": "100"}


@contextlib.contextmanager
def durable_cluster(**settings: str) -> Iterator[postgres.PostgresCluster]:
    cluster = postgres.PostgresCluster()
    try:
        with patch.object(postgres, "_QUICK_BUT_UNSAFE", _AS_SHIPPED):
            cluster.start(**settings)
        yield cluster
    finally:
        cluster.remove()
