"""Jobs that a worker had claimed when a backup was made."""


def release_statement() -> str:
    """Their leases have expired. A worker that was alive after that was only cut off, so that the
    rescue does not count it as lost."""
    return "UPDATE job_queue SET lease_expires_at = 0 WHERE lease_owner IS NOT NULL"
