"""Configuration of repositories and organizations, and what their commits contain.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.advisories.registries.hosts import hosts_for
from agentjobs.inventory.commit_summary import CommitSummary, CommitSummaryCache
from agentjobs.inventory.index.process import IndexFailure
from agentjobs.organizations.budgets import nanousd
from agentjobs.organizations.secrets import is_secret_name
from agentjobs.repos.configuration import Configuration, ConfigurationError, RunConfiguration

__all__ = [
    "CommitSummary",
    "CommitSummaryCache",
    "Configuration",
    "ConfigurationError",
    "IndexFailure",
    "RunConfiguration",
    "hosts_for",
    "is_secret_name",
    "nanousd",
]
