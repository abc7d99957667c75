"""PostgreSQL servers that cannot be used: one sentence says why and what to do."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import create_server

import pytest

from agentjobs.store.database import StoreUnavailable
from agentjobs.store.postgresql.connection import MIN_RELEASE, connect
from tests.support.postgres import PostgresCluster


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def greeting(version: str) -> bytes:
    """What a server sends to a client that it lets in without a password."""
    return b"".join(
        (
            message(b"R", struct.pack("!i", 0)),
            message(b"S", f"server_version\0{version}\0".encode()),
            message(b"S", b"in_hot_standby\0off\0"),
            message(b"K", struct.pack("!ii", 1, 1)),
            message(b"Z", b"I"),
        )
    )


@asynccontextmanager
async def fake_server(answer: bytes) -> AsyncIterator[str]:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(1024)
            writer.write(answer)
            await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"postgresql://x@127.0.0.1:{port}/x?sslmode=disable"


async def reason_of(url: str) -> str:
    with pytest.raises(StoreUnavailable) as refused:
        await connect(url)
    return str(refused.value)


async def test_a_server_that_is_too_old_is_named() -> None:
    async with fake_server(greeting("9.6.24")) as url:
        reason = await reason_of(url)
    assert f"it is PostgreSQL 9, and agentjobs needs {MIN_RELEASE} or newer; upgrade it" in reason


async def test_a_server_that_does_not_run_is_named() -> None:
    with create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    reason = await reason_of(f"postgresql://x@127.0.0.1:{port}/x")
    assert "Connection refused; check that it runs there, and AGENTJOBS_DATABASE_URL" in reason


async def test_a_host_without_an_address_is_named() -> None:
    reason = await reason_of("postgresql://x@database.invalid/x")
    assert "Name or service not known; check the host in AGENTJOBS_DATABASE_URL" in reason


async def test_a_file_of_the_url_that_does_not_exist_is_named(tmp_path: Path) -> None:
    file = tmp_path / "absent.pem"
    reason = await reason_of(f"postgresql://x@127.0.0.1:1/x?sslmode=verify-full&sslrootcert={file}")
    assert "the URL names a file that does not exist" in reason


async def test_a_wrong_password_and_a_missing_database_say_what_to_check(
    postgres_cluster: PostgresCluster,
) -> None:
    address = f"127.0.0.1:{postgres_cluster.port}"
    assert "create it with `createdb`" in await reason_of(f"postgresql://agentjobs@{address}/none")
    unknown = await reason_of(f"postgresql://somebody@{address}/postgres")
    assert "check user and password in AGENTJOBS_DATABASE_URL" in unknown
