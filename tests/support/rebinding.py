"""A program for a network of its own whose name server changes its answers: DNS rebinding.

Every way in which the service dials a name of somebody else is tried. The result has, for each,
the local addresses at which connections arrived. Run it with `run_rebinding`.
"""

import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp

from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.protocol import PlatformError
from agentjobs.webhooks.untrusted_http.pool import Origin, Progress, connect
from agentjobs_runtime.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs_runtime.outbound.egress.tunnel import open_tunnel
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import new_job_resolver, system_lookup
from agentjobs_runtime.outbound.guard.sessions import new_session

PUBLIC = "198.41.0.4"
INTERNAL = ("127.0.0.1", "10.0.0.1", "169.254.169.254")
PORT = 8080
ROUNDS = 8
# By the first label of a name: what it resolves to, query after query.
_ANSWERS: dict[str, list[tuple[str, ...]]] = {
    "public-first": [(PUBLIC,), ("127.0.0.1",)],
    "internal-first": [("169.254.169.254",), (PUBLIC,)],
    "both": [("10.0.0.1", PUBLIC), (PUBLIC, "127.0.0.1")],
    "internal": [(address,) for address in INTERNAL],
}
HOSTS = [f"{name}.test" for name in _ANSWERS]
_FILES = {
    "resolv.conf": "nameserver 127.0.0.1\n",
    "nsswitch.conf": "hosts: dns\n",
    "hosts": "",
}
_NETWORK = f"""
set -e
ip link set lo up
for address in {PUBLIC} 10.0.0.1 169.254.169.254; do ip address add $address/32 dev lo; done
for name in resolv.conf nsswitch.conf hosts; do mount --bind "$1/$name" /etc/$name; done
shift
exec "$@"
"""
_Try = Callable[[str], Awaitable[object]]


def run_rebinding() -> dict[str, dict[str, int]]:
    """Raises CalledProcessError if this machine does not allow a network of one's own."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in _FILES.items():
            (Path(directory) / name).write_text(text)
        command = ("sh", "-c", _NETWORK, "sh", directory, sys.executable, "-m", __name__)
        isolated = ("unshare", "--map-root-user", "--net", "--mount", *command)
        result = subprocess.run(isolated, check=True, stdout=subprocess.PIPE, timeout=120)
    counts: dict[str, dict[str, int]] = json.loads(result.stdout)
    return counts


def _serve_names(server: socket.socket) -> None:
    turns: dict[bytes, Iterator[tuple[str, ...]]] = {}
    while True:
        query, client = server.recvfrom(512)
        end = query.index(0, 12)
        label = query[13 : 13 + query[12]]
        is_ipv4 = query[end + 1 : end + 3] == b"\0\1"
        answers: tuple[str, ...] = ()
        if is_ipv4:
            turn = turns.setdefault(label, itertools.cycle(_ANSWERS[label.decode()]))
            answers = next(turn)
        records = b"".join(
            b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(address) for address in answers
        )
        counts = b"\0\1" + len(answers).to_bytes(2) + b"\0\0\0\0"
        question = query[12 : end + 5]
        server.sendto(query[:2] + b"\x84\0" + counts + question + records, client)


@contextlib.asynccontextmanager
async def _listening(arrived: Counter[str]) -> AsyncIterator[None]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived[writer.get_extra_info("sockname")[0]] += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with contextlib.AsyncExitStack() as stack:
        for address in (PUBLIC, *INTERNAL):
            await stack.enter_async_context(await asyncio.start_server(answer, address, PORT))
        yield


async def _fetch(host: str) -> None:
    """As for platforms, trackers, registries and advisories."""
    async with (
        new_session(AllowList()) as session,
        session.get(f"http://{host}:{PORT}/", allow_redirects=False) as response,
    ):
        await response.read()


async def _send_webhook(host: str) -> None:
    resolver = new_job_resolver(system_lookup)
    connection = await connect(Origin(host, PORT, None), AllowList(), resolver, Progress())
    connection.abort()


async def _import(host: str) -> None:
    """As for imports, and for platforms over https."""
    url = f"http://{host}:{PORT}"
    async with open_tunnel(host, PORT, AllowList(), max_bytes=1_000) as (_, proxy):
        await _run("curl", "-sS", "--proxytunnel", "--proxy", proxy, url)


async def _fetch_git(host: str) -> None:
    """As for platforms over http, where git itself dials."""
    url = f"http://{host}:{PORT}/shop.git"
    transport = GitTransport(AllowList.parse([f"{PUBLIC}/32"]))
    async with transport.connect(url, "Basic x") as remote:
        options = [("-c", f"{name}={value}") for name, value in remote.configuration.items()]
        await _run("git", *itertools.chain(*options), "ls-remote", url)


async def _use_agents_proxy(host: str, *, is_tunnel: bool = False) -> None:
    egress = Egress([f"*.test:{PORT}"], AllowList(), lambda _: None)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(egress.ports[PROXY_PORT], "127.0.0.1", 0)
    proxy = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    tunnel = ["--proxytunnel"] if is_tunnel else []
    try:
        await _run("curl", "-sS", *tunnel, "--proxy", proxy, f"http://{host}:{PORT}")
    finally:
        listener.close()
        await egress.close()


async def _use_agents_tunnel(host: str) -> None:
    await _use_agents_proxy(host, is_tunnel=True)


async def _trust_the_first_answer(host: str) -> None:
    """A check of the name before it is resolved again to be dialled, as nothing here may do."""
    if not set(system_lookup(host)) & set(INTERNAL):
        await asyncio.to_thread(lambda: socket.create_connection((host, PORT)).close())


WAYS: dict[str, _Try] = {
    "session": _fetch,
    "webhook": _send_webhook,
    "import": _import,
    "git": _fetch_git,
    "proxy": _use_agents_proxy,
    "tunnel": _use_agents_tunnel,
    "naive": _trust_the_first_answer,
}


async def _run(*command: str) -> None:
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=null, stderr=null)
    await process.wait()


async def _try_all() -> dict[str, dict[str, int]]:
    counts = {}
    for way, attempt in WAYS.items():
        arrived: Counter[str] = Counter()
        async with _listening(arrived):
            for host in HOSTS * ROUNDS:
                with contextlib.suppress(OSError, aiohttp.ClientError, PlatformError):
                    await attempt(host)
        counts[way] = dict(arrived)
    return counts


if __name__ == "__main__":
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 53))
    threading.Thread(target=_serve_names, args=(names,), daemon=True).start()
    json.dump(asyncio.run(_try_all()), sys.stdout)
