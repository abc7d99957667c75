"""The contents of commits.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.inventory.commit_summary import CommitSummary
