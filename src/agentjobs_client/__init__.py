"""A client for the Agent Job Service. It knows the interface, and nothing of the server's code."""

from agentjobs_client.async_client import AsyncClient
from agentjobs_client.client import Client
from agentjobs_client.errors import ApiError, ClientError, ServiceUnreachable, UnexpectedAnswer
from agentjobs_client.models import Agent, Event, Job, JobError, JobReceipt, Repo

__all__ = [
    "Agent",
    "ApiError",
    "AsyncClient",
    "Client",
    "ClientError",
    "Event",
    "Job",
    "JobError",
    "JobReceipt",
    "Repo",
    "ServiceUnreachable",
    "UnexpectedAnswer",
]
