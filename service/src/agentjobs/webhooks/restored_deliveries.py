"""Deliveries that waited when a backup was made: after a restore they are not sent on their own,
because the service may have sent them after the backup. They can be redelivered."""


def hold_statement(now: int) -> str:
    return (
        f"UPDATE deliveries SET status = 'failed', due_at = {now}, lease_owner = NULL,"
        " lease_expires_at = NULL WHERE status = 'pending'"
    )
