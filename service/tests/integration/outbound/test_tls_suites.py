"""The key exchanges that the service's HTTP sessions accept."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import trustme

from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from tests.support.bad_receivers import Authority, receiver, responds
from tests.support.delivery_attempts import send, webhook_client

LOOPBACK = AllowList.parse(["127.0.0.1/32"])
# The group ffdhe2048. The client refuses before it sees the group, so a small group is enough.
GROUP = """\
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""


class Servers:
    def __init__(self, place: Path) -> None:
        self._place = place
        self.trusted = place / "authority.pem"
        self.authority = Authority(trustme.CA(), self.trusted)
        self.authority.authority.cert_pem.write_to_path(str(self.trusted))

    @asynccontextmanager
    async def serving(self, context: ssl.SSLContext) -> AsyncIterator[str]:
        async with receiver(responds(204), context) as served:
            yield served.url()

    def with_tls_1_2(self, ciphers: str, kind: trustme.KeyType) -> ssl.SSLContext:
        context = self.with_defaults(kind)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
        return context

    def with_dhe_alone(self) -> ssl.SSLContext:
        context = self.with_tls_1_2("DHE+AESGCM", trustme.KeyType.RSA)
        path = self._place / "group.pem"
        path.write_text(GROUP)
        context.load_dh_params(path)
        return context

    def with_defaults(self, kind: trustme.KeyType = trustme.KeyType.ECDSA) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate = self.authority.authority.issue_cert("127.0.0.1", key_type=kind)
        certificate.configure_cert(context)
        return context


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Servers:
    return Servers(tmp_path_factory.mktemp("tls"))


async def test_a_server_that_only_offers_dhe_is_refused(servers: Servers) -> None:
    async with (
        servers.serving(servers.with_dhe_alone()) as url,
        new_session(LOOPBACK, str(servers.trusted)) as session,
    ):
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.post(url)
        async with webhook_client(authority=servers.authority) as client:
            assert (await send(client, url)).error_class == "tls"
        # Other clients accept this server.
        default = ssl.create_default_context(cafile=servers.trusted)
        async with session.post(url, ssl=default) as answer:
            assert answer.status == 204


@pytest.mark.parametrize("kind", trustme.KeyType)
@pytest.mark.parametrize("ciphers", ["ECDHE+AESGCM", "ECDHE+CHACHA20", "ECDHE+AES+SHA256"])
async def test_a_server_with_tls_1_2_and_ecdhe_is_reached(
    servers: Servers, ciphers: str, kind: trustme.KeyType
) -> None:
    async with (
        servers.serving(servers.with_tls_1_2(ciphers, kind)) as url,
        new_session(LOOPBACK, str(servers.trusted)) as session,
        session.post(url) as answer,
    ):
        assert answer.status == 204


async def test_a_server_with_tls_1_3_is_reached(servers: Servers) -> None:
    context = servers.with_defaults()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    async with (
        servers.serving(context) as url,
        new_session(LOOPBACK, str(servers.trusted)) as session,
        session.post(url) as answer,
    ):
        assert answer.status == 204
