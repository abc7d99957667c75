"""Environments of repositories: what they are, their builds and secrets.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.environments import build_queries, builds
from agentjobs.environments.access import load_setup_access
from agentjobs.environments.builds import TOPIC
from agentjobs.environments.request import RequestedEnvironment, load_request
from agentjobs.environments.secrets import open_proxy_secrets, open_registry_credentials
from agentjobs.jobs.queue.environment_holds import hold_jobs, is_worker_alive, was_held_for
from agentjobs.store.database import Database, StoreError, StoreUnavailable
