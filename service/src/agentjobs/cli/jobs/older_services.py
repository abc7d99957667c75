"""Notices what an older service silently ignores: it accepts parameters that it does not know."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from agentjobs.cli.output import print_note

if TYPE_CHECKING:
    from agentjobs_client import Job, JobReceipt


def check_filters(
    jobs: Sequence["Job"],
    *,
    labels: Mapping[str, str],
    ticket_id: str | None,
    follows: str | None,
    after: datetime | None,
    before: datetime | None,
) -> None:
    """Raises Problem if a job is listed that a filter excludes."""
    from agentjobs_runtime.problems import Problem

    for job in jobs:
        ignored = {
            "--label": not labels.items() <= job.labels.items(),
            "--ticket": ticket_id is not None and job.ticket_id != ticket_id,
            "--follows": follows is not None and job.follows != follows,
            "--created-after": after and job.created_at and job.created_at < after,
            "--created-before": before and job.created_at and job.created_at >= before,
        }
        for option, is_ignored in ignored.items():
            if is_ignored:
                raise Problem(
                    "not_supported",
                    f"The service ignored {option}: it is older than this command. Upgrade the"
                    " service, or list without it.",
                )


def warn_of_ignored_labels(receipt: "JobReceipt", labels: Mapping[str, str]) -> None:
    # Services that know labels always send warnings.
    if labels and "warnings" not in receipt.raw:
        print_note("warning: the service is older than this command and ignored the labels")
