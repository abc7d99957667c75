"""The catalogue of agents, which the service reads from the worker's part.

The protocol between service and workers replaces this module.
"""

from agentjobs_worker.agents.catalog import Catalog, build_catalog
from agentjobs_worker.agents.declarations import is_agent_id

__all__ = ["Catalog", "build_catalog", "is_agent_id"]
