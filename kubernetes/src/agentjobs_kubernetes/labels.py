"""Labels and annotations by which people and workers find pods."""

import hashlib
import re

from agentjobs_worker.sandbox.protocol import RunOwner

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "agentjobs"
JOB = "agentjobs.dev/job"
ORGANIZATION = "agentjobs.dev/organization"
AGENT = "agentjobs.dev/agent"
STEP = "agentjobs.dev/step"
WORKER = "agentjobs.dev/worker"
FENCE = "agentjobs.dev/fence"

_MAX_VALUE = 63
_DIGEST = 12
_VALID_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_INVALID_CHARACTERS = re.compile(r"[^-A-Za-z0-9_.]+")


def label_value(text: str) -> str:
    """The text itself if a label can hold it, otherwise its start and a digest of all of it."""
    if not text or (len(text) <= _MAX_VALUE and _VALID_VALUE.fullmatch(text)):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]
    start = _INVALID_CHARACTERS.sub("-", text)[: _MAX_VALUE - _DIGEST - 1].strip("-_.")
    return f"{start}-{digest}" if start else digest


def pod_labels(owner: RunOwner | None, worker: str) -> dict[str, str]:
    return {
        MANAGED_BY: MANAGER,
        WORKER: label_value(worker),
        **{name: label_value(value) for name, value in _owner_values(owner).items()},
    }


def pod_annotations(owner: RunOwner | None) -> dict[str, str]:
    """The whole values: those of labels may be shortened."""
    if owner is None:
        return {}
    return {**_owner_values(owner), FENCE: str(owner.fence)}


def _owner_values(owner: RunOwner | None) -> dict[str, str]:
    if owner is None:
        return {}
    values = {
        JOB: owner.job_id,
        ORGANIZATION: owner.organization_id,
        AGENT: owner.agent_id,
        STEP: owner.step,
    }
    return {name: value for name, value in values.items() if value}
