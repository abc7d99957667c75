"""Claims, leases and ends of jobs, and what else a worker tells the queue.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.fleet.processes import program_version
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue import leases
from agentjobs.jobs.queue.claimer import Claimer
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.environment_holds import hold_jobs, is_worker_alive, was_held_for
from agentjobs.jobs.queue.leases import cancel_requests
from agentjobs.jobs.queue.start import start_job
from agentjobs.loops.deleted_repos_loop import DeletedReposLoop, RepoCache
from agentjobs.loops.fleet_size_loop import fleet_size_loop
from agentjobs.loops.rescue_loop import rescue_loop
