"""What a restore did, and what the operator has to know."""

import msgspec

from agentjobs.store.database import Engine


class Restored(msgspec.Struct, kw_only=True):
    """Jobs and deliveries as of the backup. `replaced`: where what was there has been moved."""

    path: str
    restored_at: str
    engine: Engine
    revision: str
    needs_migration: bool
    queued_jobs: int = 0
    running_jobs: int = 0
    held_deliveries: int = 0
    paused: bool = True
    repositories: int = 0
    settings_file: str = "none"
    replaced: list[str] = []
    notes: list[str] = []


def describe(restored: Restored) -> list[str]:
    """What the operator has to know, line by line."""
    lines = [f"What was there before is in {place}." for place in restored.replaced]
    lines += restored.notes
    if restored.held_deliveries:
        lines.append(
            f"{restored.held_deliveries} webhook deliveries were waiting; they are not sent. To"
            " send those of an organization: agentjobs webhooks redeliver --failed-since"
            f" {restored.restored_at} --org NAME"
        )
    lines.append(
        f"{restored.queued_jobs} queued and {restored.running_jobs} running jobs are in the backup."
        " Workers start no job until `agentjobs resume`."
    )
    if restored.needs_migration:
        lines.append(f"The schema is {restored.revision}: run `agentjobs migrate`.")
    return lines
