"""A service beside the agent: the relay between their sandboxes, against a direct connection.

The same client is measured twice, in alternation: with the service in a sandbox of its own, and as
another process in the sandbox of the client. Round trips of one byte, then a download.
"""

import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from bench.report import verdict
from tests.support.sandbox import unused_uid_base
from tests.support.services import ServiceHarness

RUNS = 5
ROUND_TRIPS = 2_000
MIBS = 512
GOAL_ADDED_US = 100
GOAL_MIB_PER_SECOND = 500

_SERVER = f"""
import socket, threading
def answer(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while request := connection.recv(1):
        if request == b"p":
            connection.sendall(b"p")
        else:
            for _ in range({MIBS}):
                connection.sendall(bytes(1 << 20))
def serve():
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],)).start()
listener = socket.create_server(("127.0.0.1", 7000))
threading.Thread(target=serve).start()
"""
_CLIENT = f"""
import json, socket, statistics, time
connection = None
while connection is None:
    try:
        connection = socket.create_connection(("127.0.0.1", 7000))
    except ConnectionRefusedError:
        time.sleep(0.01)
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range({ROUND_TRIPS}):
    started = time.perf_counter()
    connection.sendall(b"p")
    connection.recv(1)
    times.append(time.perf_counter() - started)
connection.sendall(b"d")
left, buffer, started = {MIBS} << 20, bytearray(1 << 20), time.perf_counter()
while left:
    left -= connection.recv_into(buffer)
seconds = time.perf_counter() - started
print(json.dumps([statistics.median(times) * 1e6, {MIBS} / seconds]), flush=True)
"""
_BESIDE = 'python3 -c "$0" & exec python3 -c "$1"'


def measure() -> list[dict[str, Any]]:
    return asyncio.run(_measure())


async def _measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="agentjobs-bench-") as directory:
        harness = ServiceHarness(BubblewrapSandbox(unused_uid_base()), Path(directory))
        relayed, direct = [], []
        async with harness.running(harness.service("it", "python3", "-c", _SERVER)) as services:
            for _ in range(RUNS):
                direct.append(await _run(harness, "sh", "-c", _BESIDE, _SERVER, _CLIENT))
                ports = services.ports()
                relayed.append(await _run(harness, "python3", "-c", _CLIENT, ports=ports))
    return [_figure(direct, relayed)]


async def _run(harness: ServiceHarness, *argv: str, **changes: Any) -> tuple[float, float]:
    """Microseconds of a round trip, and MiB per second."""
    report = await harness.agent.run(*argv, **changes)
    microseconds, rate = json.loads(report.last_lines)
    return microseconds, rate


def _figure(
    direct: list[tuple[float, float]], relayed: list[tuple[float, float]]
) -> dict[str, Any]:
    (direct_us, direct_rate), (relayed_us, relayed_rate) = (
        map(statistics.median, zip(*runs, strict=True)) for runs in (direct, relayed)
    )
    added = relayed_us - direct_us
    return {
        "runs": len(relayed),
        "direct p50 us": round(direct_us),
        "relayed p50 us": round(relayed_us),
        "added p50 us": round(added),
        "goal added us": GOAL_ADDED_US,
        "direct MiB/s": round(direct_rate),
        "relayed MiB/s": round(relayed_rate),
        "goal MiB/s": GOAL_MIB_PER_SECOND,
        "verdict": verdict(met=added <= GOAL_ADDED_US and relayed_rate >= GOAL_MIB_PER_SECOND),
    }
