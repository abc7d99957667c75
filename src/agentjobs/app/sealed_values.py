"""Every kind of value that is stored encrypted, for the rotation of the key."""

from agentjobs.connections.connections import SEALED_CREDENTIALS
from agentjobs.environments.sealed_values import SEALED_ENVIRONMENT_SECRETS
from agentjobs.organizations.secrets import SEALED_SECRETS
from agentjobs.repos.hook_rows import SEALED_HOOK_SECRETS
from agentjobs.tickets.trackers import SEALED_TOKENS
from agentjobs.webhooks.secret_rotation import SEALED_ENDPOINT_SECRETS

SEALED_VALUES = (
    SEALED_SECRETS,
    *SEALED_ENDPOINT_SECRETS,
    *SEALED_CREDENTIALS,
    SEALED_HOOK_SECRETS,
    SEALED_TOKENS,
    SEALED_ENVIRONMENT_SECRETS,
)
