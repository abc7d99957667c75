"""Output of jobs.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.jobs.logs.writer import LogWriter

__all__ = ["LogWriter"]
