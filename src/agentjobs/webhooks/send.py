"""One attempt: open the secrets, sign the stored bytes, send them. The same for every delivery."""

from agentjobs.clock import now_ms
from agentjobs.outbound.guard.addresses import Allowed
from agentjobs.settings import Settings
from agentjobs.webhooks.connections import Connections
from agentjobs.webhooks.model import Attempt, ClaimedDelivery
from agentjobs.webhooks.signature import signed_headers
from agentjobs.webhooks.signing_secrets import SecretBox


def connections_of(settings: Settings, allowed: Allowed) -> Connections:
    """Raises ValueError when the operator's certificates cannot be read."""
    return Connections(
        allowed,
        ca_file=settings.ca_file,
        proxy=settings.webhooks_proxy,
        timeout_seconds=settings.webhook_timeout_seconds,
        connect_seconds=settings.webhook_connect_seconds,
    )


async def send(delivery: ClaimedDelivery, secrets: SecretBox, connections: Connections) -> Attempt:
    """Raises Problem when the secret cannot be opened on this machine."""
    at = now_ms()
    opened = secrets.open(delivery.organization_id, delivery.endpoint_id, delivery.secrets, at)
    headers = signed_headers(delivery, opened, at)
    return await connections.attempt(delivery.endpoint_id, delivery.url, headers, delivery.body)
