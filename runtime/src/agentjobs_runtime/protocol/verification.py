"""The result of the checks that run after an agent."""

from typing import Annotated

import msgspec

from agentjobs_runtime.json_fields import Count, doc


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    command: Annotated[str, doc("The command that was run after the agent.")]
    passed: Annotated[bool, doc("Whether it succeeded.")]
    exit_code: Annotated[int | None, doc("Null when a timeout or another limit stopped it.")]
    duration_ms: Annotated[Count, doc("How long it took.")]
    output: Annotated[str, doc("The last lines of a check that failed.")]
    stopped_by: Annotated[str | None, doc("The limit that stopped it, such as its timeout.")] = None


def stored_verification(text: str | None) -> Verification | None:
    return None if text is None else msgspec.json.decode(text, type=Verification)


def describe(verification: Verification) -> str:
    command, seconds = verification.command, verification.duration_ms / 1_000
    if verification.passed:
        return f"`{command}` succeeded after {seconds:.1f} s"
    if verification.exit_code is None:
        return f"`{command}` was stopped after {seconds:.1f} s: {verification.stopped_by}"
    return f"`{command}` failed with exit code {verification.exit_code} after {seconds:.1f} s"
