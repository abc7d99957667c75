"""The database, for as long as a worker opens it.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.store.database import Database, StoreError, StoreUnavailable
from agentjobs.store.leases import ClaimLost, retry_within_lease
from agentjobs.store.opening import open_unchecked
