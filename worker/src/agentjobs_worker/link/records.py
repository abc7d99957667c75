"""Output, results, usage, checks and steps of a run.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.results.artifacts import store_artifacts
from agentjobs.jobs.results.diffs import store_diff
from agentjobs.jobs.results.run_records import (
    record_environment,
    record_verification,
    remove_results,
    usage_writer,
)
from agentjobs.jobs.steps.model_calls import model_step
