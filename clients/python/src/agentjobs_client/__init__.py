"""A client for the Agent Job Service. It imports nothing of the server."""

from agentjobs_client.async_client import AsyncClient
from agentjobs_client.client import Client
from agentjobs_client.errors import ApiError, ClientError, ServiceUnreachable, UnexpectedAnswer
from agentjobs_client.models import (
    Agent,
    Dependency,
    DependencyAdvisory,
    Event,
    Job,
    JobError,
    JobReceipt,
    Repo,
)
from agentjobs_client.webhooks import (
    InvalidSignature,
    UnknownPayload,
    WebhookEvent,
    verify_webhook,
)

__all__ = [
    "Agent",
    "ApiError",
    "AsyncClient",
    "Client",
    "ClientError",
    "Dependency",
    "DependencyAdvisory",
    "Event",
    "InvalidSignature",
    "Job",
    "JobError",
    "JobReceipt",
    "Repo",
    "ServiceUnreachable",
    "UnexpectedAnswer",
    "UnknownPayload",
    "WebhookEvent",
    "verify_webhook",
]
