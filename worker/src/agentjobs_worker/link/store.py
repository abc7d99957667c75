"""The database, for as long as a worker opens it.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.store.database import Database, Row, StoreError, StoreUnavailable
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.store.leases import ClaimLost
from agentjobs.store.opening import open_unchecked

__all__ = [
    "DATABASE_NOW",
    "ClaimLost",
    "Database",
    "Row",
    "StoreError",
    "StoreUnavailable",
    "open_unchecked",
]
