"""What the service does before an agent starts.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.jobs.results.diffs import store_diff
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, new_token, token_hash
from agentjobs.platforms.protocol import PlatformError
from agentjobs.publishing.attribution import load_attribution
from agentjobs.publishing.context import FinishedWork, ServiceRun, ServiceTools
from agentjobs.publishing.cve_fix.cve_fix import plan_cve_fix
from agentjobs.publishing.earlier_attempt import (
    PushedWork,
    find_merged_pull,
    find_own_commit,
    find_pushed_work,
)
from agentjobs.publishing.failures import to_failure
from agentjobs.publishing.hosted_repo import (
    HostedRepo,
    classify_outage,
    fetch_base_commit,
    fetch_default_branch,
    open_repo,
    sync_soon,
)
from agentjobs.publishing.phases import RunPhases
from agentjobs.publishing.previous_pull import load_previous_pull
from agentjobs.publishing.pull_text import PullText, commit_message, pull_text
from agentjobs.publishing.ticket import find_ticket, ticket_details
from agentjobs.tickets.protocol import TrackerUnavailable
from agentjobs.tickets.resolve import FoundTicket
