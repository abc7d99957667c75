"""The address of a client, behind proxies and without."""

from pathlib import Path

import pytest

from agentjobs.store.opening import open_database
from agentjobs.web.client_addresses import ClientAddresses
from agentjobs_runtime.settings import Settings, SettingsError
from service.tests.unit.web.service import service_on


def address(trusted: list[str], client: str | None, *forwarded: str) -> str:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    peer = None if client is None else (client, 1)
    return ClientAddresses(trusted).of({"client": peer, "headers": headers})


def test_a_forwarded_address_from_an_untrusted_peer_is_ignored() -> None:
    assert address([], "203.0.113.9", "198.51.100.1") == "203.0.113.9"
    assert address(["10.0.0.0/8"], "203.0.113.9", "198.51.100.1") == "203.0.113.9"


def test_a_trusted_proxy_forwards_the_clients_address() -> None:
    assert address(["10.0.0.0/8"], "10.1.2.3", "198.51.100.1") == "198.51.100.1"
    assert address(["::1"], "::1", "2001:db8::7") == "2001:db8::7"


def test_addresses_before_the_first_trusted_proxy_are_ignored() -> None:
    assert address(["10.0.0.0/8"], "10.1.2.3", "1.1.1.1, 198.51.100.1, 10.9.9.9") == "198.51.100.1"
    assert address(["10.0.0.0/8"], "10.1.2.3", "1.1.1.1", "198.51.100.1") == "198.51.100.1"


def test_an_invalid_address_ends_the_chain() -> None:
    assert address(["10.0.0.0/8"], "10.1.2.3", "1.1.1.1, <script>") == "10.1.2.3"
    assert address(["10.0.0.0/8"], "10.1.2.3") == "10.1.2.3"


def test_a_unix_socket_has_no_address() -> None:
    assert address(["10.0.0.0/8"], None, "1.1.1.1") == ""


def test_an_invalid_network_is_refused() -> None:
    with pytest.raises(SettingsError, match="TRUSTED_PROXIES"):
        ClientAddresses(["everyone"])


async def test_behind_a_trusted_proxy_the_clients_address_must_be_in_the_networks_of_a_key(
    sqlite_url: str, tmp_path: Path
) -> None:
    db = await open_database(sqlite_url, migrate=False)
    settings = Settings(data_dir=str(tmp_path), trusted_proxies=["127.0.0.1"])
    service = await service_on(db, settings)
    try:
        key = await service.key(allowed_networks=["192.0.2.0/24"])
        for client, status in (("192.0.2.1", 200), ("10.0.0.1", 401), ("192.0.2.1, 10.0.0.1", 401)):
            headers = {**key, "X-Forwarded-For": client}
            assert (await service.get("/v1/agents", headers=headers)).status_code == status
    finally:
        await service.http.aclose()
        await db.close()
