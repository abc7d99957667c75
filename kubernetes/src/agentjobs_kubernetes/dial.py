"""Connects to the supervisor of a pod over TLS, and proves to each side who the other is."""

import asyncio
import socket
import ssl

from agentjobs_kubernetes.channels import ConnectionLost
from agentjobs_kubernetes.connection import OnPort, Output, Supervisor
from agentjobs_kubernetes.credentials import SERVER_NAME, SUPERVISOR_PORT, Credentials
from agentjobs_kubernetes.multiplexer import Connection

CONNECT_SECONDS = 1.0
HELLO_SECONDS = 10.0


async def connect(
    address: str,
    credentials: Credentials,
    output: Output,
    on_port: OnPort,
    silence_seconds: float,
) -> Supervisor:
    """Raises ConnectionLost if nothing that has the credentials answers."""
    supervisor = Supervisor(output, on_port, silence_seconds)
    try:
        await _dial(supervisor.connection, address, credentials)
        async with asyncio.timeout(HELLO_SECONDS):
            await supervisor.greet(credentials.token)
    except (OSError, TimeoutError) as error:
        supervisor.close()
        raise ConnectionLost(f"{address}: {str(error) or 'no answer in time'}") from None
    except BaseException:
        supervisor.close()
        raise
    return supervisor


async def _dial(connection: Connection, address: str, credentials: Credentials) -> None:
    """Raises OSError, TimeoutError and ConnectionLost."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # A packet that is lost while the pod gets its network would cost a second at least.
        async with asyncio.timeout(CONNECT_SECONDS):
            await loop.sock_connect(sock, (address, SUPERVISOR_PORT))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    transport, _ = await loop.create_connection(
        lambda: connection,
        sock=sock,
        ssl=_tls_context(),
        server_hostname=SERVER_NAME,
        ssl_handshake_timeout=HELLO_SECONDS,
        ssl_shutdown_timeout=CONNECT_SECONDS,
    )
    tls = transport.get_extra_info("ssl_object")
    if tls.getpeercert(binary_form=True) != credentials.certificate_der:
        raise ConnectionLost(f"what listens at {address} is not the supervisor of this run")


def _tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # `_dial` compares the whole certificate instead.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
