"""Malformed smart HTTP requests: errors use the API's shape and leave no process or file behind."""

import asyncio
import gzip
import itertools
import os
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agentjobs.store.opening import open_database
from agentjobs.web.git import backend
from agentjobs.web.git.backend import MAX_NEGOTIATION_BYTES
from agentjobs.web.git.push_commands import MAX_OPENING_BYTES, pkt_line
from agentjobs.web.git.slots import MAX_WAITING_PER_SLOT, GitSlots
from agentjobs_runtime.git.limits import GitLimits, set_git_limits
from agentjobs_runtime.problems import Problem
from tests.support.git_bombs import delta_bomb_pack
from tests.support.git_commands import commit_files, git_output
from tests.support.git_server import GitServer, running_backends, serving, until
from tests.support.local_repository import make_platform

HERE = "/git/acme/acme/shop.git"
UPLOAD = {"Content-Type": "application/x-git-upload-pack-request"}
RECEIVE = {"Content-Type": "application/x-git-receive-pack-request"}
OLD, NEW = b"0" * 40, b"a" * 40


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[GitServer]:
    db = await open_database(sqlite_url, migrate=False)
    async with serving(await make_platform(db, tmp_path), tmp_path) as running:
        yield running
    await until(lambda: not running_backends())
    await db.close()


@pytest.fixture
async def client(server: GitServer) -> AsyncIterator[httpx.AsyncClient]:
    key = await server.platform.key(git_write=True)
    async with httpx.AsyncClient(base_url=server.url, auth=("me", key)) as http:
        yield http


def assert_refused(response: httpx.Response, status: int, code: str) -> None:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code
    assert error["request_id"] == response.headers["x-request-id"]


def update(ref: bytes, capabilities: bytes = b"") -> bytes:
    return pkt_line(OLD + b" " + NEW + b" " + ref + capabilities)


async def test_without_a_valid_token_basic_authentication_is_requested(server: GitServer) -> None:
    requests = (
        ("GET", "/info/refs?service=git-upload-pack"),
        ("POST", "/git-upload-pack"),
        ("POST", "/git-receive-pack"),
    )
    authorizations = (
        "",
        "Basic",
        "Basic !!!",
        "Basic bWU6",
        "Basic bWU=",
        "Bearer",
        "Digest x",
        "é",
    )
    async with httpx.AsyncClient(base_url=server.url) as client:
        for authorization, (method, path) in itertools.product(authorizations, requests):
            headers = {"Authorization": authorization.encode("latin-1")} if authorization else {}
            response = await client.request(method, HERE + path, headers=headers)
            assert_refused(response, 401, "unauthorized")
            assert response.headers["www-authenticate"].startswith("Basic realm=")


async def test_nothing_but_smart_http_is_served(client: httpx.AsyncClient) -> None:
    for path in (
        "/info/refs",
        "/info/refs?service=git-upload-archive",
        "/info/refs?service=git-upload-pack%00",
        "/HEAD",
        "/config",
        "/objects/info/packs",
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/info/refs?service=git-upload-pack",
        "/info/refs/?service=git-upload-pack",
    ):
        assert_refused(await client.get(HERE + path), 404, "not_found")


async def test_a_name_that_is_no_repository_is_not_found(client: httpx.AsyncClient) -> None:
    for name in ("acme/shop", "acme/acme/shop.git", "acme/acme/..", "a%00b/x/y", "acme/acme/é"):
        response = await client.get(f"/git/{name}.git/info/refs?service=git-upload-pack")
        assert_refused(response, 404, "not_found")


async def test_a_wrong_method_gets_the_allowed_method(client: httpx.AsyncClient) -> None:
    response = await client.get(f"{HERE}/git-receive-pack")
    assert_refused(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
    assert_refused(await client.post(f"{HERE}/info/refs"), 405, "method_not_allowed")


async def test_other_content_is_refused(client: httpx.AsyncClient) -> None:
    for path in ("/git-upload-pack", "/git-receive-pack"):
        assert_refused(
            await client.post(HERE + path, content=b"0000"), 415, "unsupported_media_type"
        )
        headers = {"Content-Type": "application/json"}
        response = await client.post(HERE + path, content=b"{}", headers=headers)
        assert_refused(response, 415, "unsupported_media_type")
    headers = {**UPLOAD, "Content-Encoding": "br"}
    response = await client.post(f"{HERE}/git-upload-pack", content=b"0000", headers=headers)
    assert_refused(response, 415, "unsupported_media_type")


async def test_a_damaged_compressed_body_is_refused(client: httpx.AsyncClient) -> None:
    damaged = (b"no gzip", gzip.compress(b"0000" * 9)[:-6], gzip.compress(b"0000") + b"x", b"")
    for body in damaged:
        for path, kind in (("/git-upload-pack", UPLOAD), ("/git-receive-pack", RECEIVE)):
            headers = {**kind, "Content-Encoding": "gzip"}
            response = await client.post(HERE + path, content=body, headers=headers)
            assert_refused(response, 400, "bad_request")


async def test_a_gzip_bomb_is_refused_at_the_limit(client: httpx.AsyncClient) -> None:
    bomb = gzip.compress(b"0" * (MAX_NEGOTIATION_BYTES + 1_000_000))
    headers = {**UPLOAD, "Content-Encoding": "gzip"}
    response = await client.post(f"{HERE}/git-upload-pack", content=bomb, headers=headers)
    assert_refused(response, 413, "payload_too_large")


async def test_a_malformed_fetch_is_refused(client: httpx.AsyncClient) -> None:
    for body in (b"no pkt-line at all", b"0032want " + b"z" * 41, b"ffff0000", b"0032want "):
        response = await client.post(f"{HERE}/git-upload-pack", content=body, headers=UPLOAD)
        assert_refused(response, 400, "bad_request")


async def test_a_push_with_malformed_commands_is_refused(client: httpx.AsyncClient) -> None:
    unfinished = update(b"refs/heads/x")
    for body in (b"", b"00", b"zzzz", b"0001", unfinished, unfinished[:20]):
        response = await client.post(f"{HERE}/git-receive-pack", content=body, headers=RECEIVE)
        assert_refused(response, 400, "bad_request")


async def test_a_push_of_too_many_refs_is_refused(client: httpx.AsyncClient) -> None:
    line = update(b"refs/heads/" + b"x" * 1_000)
    body = line * (MAX_OPENING_BYTES // len(line) + 100) + b"0000"
    response = await client.post(f"{HERE}/git-receive-pack", content=body, headers=RECEIVE)
    assert_refused(response, 413, "payload_too_large")


async def test_a_push_without_its_pack_changes_nothing(
    client: httpx.AsyncClient, server: GitServer
) -> None:
    body = update(b"refs/heads/x", b"\0report-status") + b"0000"
    response = await client.post(f"{HERE}/git-receive-pack", content=body, headers=RECEIVE)
    assert response.status_code in {200, 400}
    assert b"ok refs/heads/x" not in response.content
    assert git_output("for-each-ref", "--format=%(refname)", cwd=server.platform.git_dir) == (
        "refs/heads/main"
    )


async def test_the_rest_of_a_refused_push_is_not_unpacked(client: httpx.AsyncClient) -> None:
    opening = update(b"refs/notes/x", b"\0report-status") + b"0000"
    packed = gzip.compress(opening + b"\0" * 500_000)
    headers = {**RECEIVE, "Content-Encoding": "gzip"}
    response = await client.post(
        f"{HERE}/git-receive-pack", content=packed[:-20] + b"damaged" * 100, headers=headers
    )
    assert response.status_code == 200
    assert b"ng refs/notes/x" in response.content


async def test_a_forbidden_ref_is_refused_to_a_client_that_reads_no_reports(
    client: httpx.AsyncClient,
) -> None:
    body = update(b"refs/notes/x") + b"0000"
    response = await client.post(f"{HERE}/git-receive-pack", content=body, headers=RECEIVE)
    assert_refused(response, 403, "insufficient_scope")


async def test_a_key_without_git_write_is_refused_at_every_step(server: GitServer) -> None:
    key = await server.platform.key()
    async with httpx.AsyncClient(base_url=server.url, auth=("me", key)) as client:
        response = await client.get(f"{HERE}/info/refs?service=git-receive-pack")
        assert_refused(response, 403, "insufficient_scope")
        response = await client.post(f"{HERE}/git-receive-pack", content=b"0000", headers=RECEIVE)
        assert_refused(response, 403, "insufficient_scope")


async def test_an_odd_protocol_header_is_ignored(client: httpx.AsyncClient) -> None:
    for value in ("version=2; rm -rf /", "x" * 5_000, "version=9"):
        response = await client.get(
            f"{HERE}/info/refs?service=git-upload-pack", headers={"Git-Protocol": value}
        )
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/x-git-upload-pack-advertisement"


async def _open_request(
    server: GitServer, path: str, content_type: str, key: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A raw connection that has sent the headers of a request with a chunked body."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(
        f"POST {HERE}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    return reader, writer


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def test_a_push_that_never_ends_does_not_hold_up_others(server: GitServer) -> None:
    key = await server.platform.key(git_write=True)
    _, writer = await _open_request(server, "/git-receive-pack", RECEIVE["Content-Type"], key)
    writer.write(_chunk(update(b"refs/heads/x", b"\0report-status") + b"0000"))
    writer.write(_chunk(b"PACK\0\0\0\2\0\0\xff\xff" + os.urandom(1)))
    await writer.drain()
    clone = await server.clone(key)
    commit_files(clone, {"new.txt": "new"}, "new")
    assert (await server.git("push", "origin", "main", cwd=clone)).exit_code == 0
    writer.close()
    await writer.wait_closed()
    assert not running_backends()


async def test_a_client_that_disconnects_during_a_clone_stops_the_backend(
    server: GitServer,
) -> None:
    server.platform.propose("main", {"large.bin": os.urandom(20_000_000)})
    key = await server.platform.key()
    reader, writer = await _open_request(server, "/git-upload-pack", UPLOAD["Content-Type"], key)
    want = pkt_line(f"want {server.platform.head()} side-band-64k ofs-delta\n".encode())
    writer.write(_chunk(want + b"0000" + pkt_line(b"done\n")) + b"0\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    assert running_backends()
    writer.transport.abort()
    await until(lambda: not running_backends())


async def test_large_repositories_are_streamed_in_little_memory(server: GitServer) -> None:
    key = await server.platform.key(git_write=True)
    clone = await server.clone(key)
    commit_files(clone, {"large.bin": os.urandom(8_000_000)}, "large")
    tracemalloc.start()
    try:
        process = await server.git(
            "-c", "http.postBuffer=65536", "push", "origin", "main", cwd=clone
        )
        assert process.exit_code == 0, process.output
        await server.clone(key, "again")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


async def test_a_planted_hook_does_not_run(server: GitServer) -> None:
    marker = server.directory / "planted"
    hooks = server.platform.git_dir / "hooks"
    hooks.mkdir()
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (hooks / name).chmod(0o755)
    clone = await server.clone(await server.platform.key(git_write=True))
    commit_files(clone, {"a": "1"}, "x")
    process = await server.git("push", "origin", "main", cwd=clone)
    assert process.exit_code == 0, process.output
    assert not marker.exists()


async def test_a_repository_whose_files_are_gone_is_not_found(
    client: httpx.AsyncClient, server: GitServer
) -> None:
    server.platform.git_dir.rename(server.directory / "moved.git")
    response = await client.get(f"{HERE}/info/refs?service=git-upload-pack")
    assert_refused(response, 404, "not_found")


async def test_a_push_that_expands_to_gigabytes_is_refused(client: httpx.AsyncClient) -> None:
    set_git_limits(GitLimits(memory_bytes=128 * 1024**2))
    try:
        pack = delta_bomb_pack(objects=1, object_bytes=512 * 1024**2)
        body = update(b"refs/heads/bomb", b"\0report-status") + b"0000" + pack
        response = await client.post(HERE + "/git-receive-pack", headers=RECEIVE, content=body)
    finally:
        set_git_limits(GitLimits())
    assert response.status_code == 200
    assert b"ng refs/heads/bomb unpacker error" in response.content


async def test_the_cpu_time_of_a_push_depends_on_its_size(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[float] = []
    monkeypatch.setattr(backend, "_MIN_CPU_SECONDS", 1, raising=False)
    monkeypatch.setattr(
        GitSlots, "charge", lambda _, __, seconds: charged.append(seconds), raising=False
    )
    pack = delta_bomb_pack(objects=100, object_bytes=64 * 1024**2)
    body = update(b"refs/heads/bomb", b"\0report-status") + b"0000" + pack
    response = await client.post(
        HERE + "/git-receive-pack", headers=RECEIVE, content=body, timeout=300
    )
    assert b"unpack index-pack abnormal exit" in response.content
    await until(lambda: charged)
    assert 0.5 < sum(charged) < 3


async def test_a_push_stays_packed(server: GitServer) -> None:
    key = await server.platform.key(git_write=True)
    clone = await server.clone(key)
    loose = git_output("count-objects", cwd=server.platform.git_dir)
    commit_files(clone, {"new.txt": "new"}, "new")
    assert (await server.git("push", "origin", "main", cwd=clone)).exit_code == 0
    assert git_output("count-objects", cwd=server.platform.git_dir) == loose


async def test_an_organization_that_used_its_cpu_time_waits() -> None:
    slots = GitSlots(4, 10)
    slots.charge("busy", 10)
    slots.check_cpu_time("busy")
    slots.charge("busy", 3)
    with pytest.raises(Problem, match="more CPU time than limit_git_cpu_seconds") as caught:
        slots.check_cpu_time("busy")
    assert caught.value.retry_after_seconds == 3
    slots.check_cpu_time("other")


async def test_cpu_time_is_granted_again_after_a_while() -> None:
    slots = GitSlots(400, 10)
    slots.charge("busy", 11)
    with pytest.raises(Problem):
        slots.check_cpu_time("busy")

    def is_granted() -> bool:
        try:
            slots.check_cpu_time("busy")
        except Problem:
            return False
        return True

    await until(is_granted)


async def test_one_organization_runs_a_limited_number_of_git_processes() -> None:
    slots = GitSlots(2)
    release, running = asyncio.Event(), Counter[str]()

    async def operate(organization: str) -> None:
        async with slots.hold(organization):
            running[organization] += 1
            await release.wait()
            running[organization] -= 1

    limit = 2 * (1 + MAX_WAITING_PER_SLOT)
    async with asyncio.TaskGroup() as group:
        for _ in range(limit):
            group.create_task(operate("busy"))
        await until(lambda: running["busy"] == 2)
        with pytest.raises(Problem, match="34 git operations"):
            await operate("busy")
        group.create_task(operate("other"))
        await until(lambda: running["other"] == 1)
        assert running["busy"] == 2
        release.set()
    async with slots.hold("busy"):
        pass
