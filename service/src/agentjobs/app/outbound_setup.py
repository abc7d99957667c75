"""Outgoing connections of the service: the operator's settings and the address guard."""

from pathlib import Path

import aiohttp

from agentjobs.connections.adapters import Platforms
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.git_transport import GitTransport
from agentjobs.store.database import Database
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import load_tls_context, new_session
from agentjobs_runtime.settings import Settings, SettingsError, prepare_data_directory
from agentjobs_worker.sandbox.certificates import BUNDLE_FILE, create_bundle


def build_allow_list(settings: Settings) -> AllowList:
    try:
        return AllowList.parse(settings.egress_allow)
    except ValueError as error:
        raise SettingsError(f"AGENTJOBS_EGRESS_ALLOW: {error}") from None


def open_session(settings: Settings) -> aiohttp.ClientSession:
    try:
        return new_session(build_allow_list(settings), settings.ca_file)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def build_platforms(
    db: Database, settings: Settings, session: aiohttp.ClientSession, certificates: Path | None
) -> Platforms:
    git_transport = GitTransport(build_allow_list(settings), certificates)
    return Platforms(db, SealingKeys.load(settings), session, git_transport)


def prepare_certificates(settings: Settings) -> Path | None:
    """A file with the system's certificates and the operator's, for git and agents."""
    if not settings.ca_file:
        return None
    try:
        load_tls_context(settings.ca_file)
        # A command may run on a machine that has no data yet.
        prepare_data_directory(settings)
        return create_bundle(Path(settings.ca_file), settings.data_path)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    except OSError as error:
        bundle = settings.data_path / BUNDLE_FILE
        raise SettingsError(f"ca_file: {bundle} cannot be written: {error.strerror}") from None
