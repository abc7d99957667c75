"""Where the service that runs is reached, told in the store: a command does not know its flags."""

import msgspec

from agentjobs.organizations import effective_settings
from agentjobs.settings import Settings
from agentjobs.store.database import Database

_NAME = "public_url"


async def store_public_url(db: Database, settings: Settings) -> None:
    await effective_settings.tell(db, _NAME, settings.effective_public_url)


async def stored_public_url(db: Database, settings: Settings) -> str:
    """What is set comes first; else that of the service that started last; else the default."""
    told = None if settings.public_url else await effective_settings.told(db, _NAME)
    return settings.effective_public_url if told is None else msgspec.json.decode(told, type=str)
