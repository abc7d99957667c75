"""What all contract servers share: HTTPS, validation of every request against the platform's
description, injected faults and the git remote. Knows no platform."""

import asyncio
import base64
import binascii
import contextlib
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from aiohttp import web

from tests.support.forge_servers.authority import authorities, tls
from tests.support.forge_servers.calls import NO_BODY, Call, Refusal, Response, find_handlers
from tests.support.forge_servers.description import Description, Match
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.git_remote import GitRemote
from tests.support.forge_servers.older_versions import OlderVersion
from tests.support.forge_servers.state import WRITING, RepositoryRow, Role, State

_GIT_PATH = re.compile(
    r"/(?P<name>.+?)(\.git)?(?P<rest>/(info/refs|git-upload-pack|git-receive-pack))"
)


class ContractServer:
    """A platform's server is a subclass with the hooks below and a method for each operation:

        @handles("GET /user")
        async def own_user(self, call: Call) -> Response: ...

    Requests that violate the description get status 400 and are added to `violations`; `serving`
    fails at its end if there are any.
    """

    platform: ClassVar[str]
    # The prefix of every path of the description, such as "/api/v4".
    api_path: ClassVar[str] = ""
    account: ClassVar[str] = "agentjobs-bot"
    # Whether responses have an ETag, which a later request can name in If-None-Match.
    has_etags: ClassVar[bool] = False

    def __init__(self, description: Description, directory: Path) -> None:
        self.description = description
        self.state = State(self.account)
        self.git = GitRemote(directory / "git")
        self.authorities = authorities(directory)
        self.token = f"{self.platform}-token-5e2c7fd1"
        self.port = 0
        # What links to other pages name instead of `url`: the server's own name behind a proxy.
        self.link_origin = ""
        self.older_version: OlderVersion | None = None
        # A test with a manual clock sets it on the server as well.
        self.clock: Callable[[], float] = time.time
        # Valid requests, and the violations of the others.
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.git_requests: list[str] = []
        # How many requests were answered with 304.
        self.not_modified = 0
        self._faults: list[Fault] = []
        self._handlers = find_handlers(type(self))

    # Defined by each platform

    def error(self, refusal: Refusal) -> Any:
        """The body of an error in the platform's format."""
        return {"message": str(refusal), **refusal.more}

    def header_faults(self, headers: Mapping[str, str]) -> list[str]:
        """Checks the headers that the platform requires."""
        return [] if headers.get("User-Agent") else ["the header User-Agent is missing"]

    def usual_headers(self) -> Mapping[str, str]:
        """Headers of every response: the rate limit."""
        return {}

    def described_path(self, path: str) -> str:
        """The described path for a path that the platform also accepts."""
        return path

    def admit(self, call: Call) -> None:
        """Raise Refusal(401, …) for a credential that is not accepted; calls see `self.token`."""
        raise NotImplementedError

    def workflow_refusal(self, password: str) -> str:  # noqa: ARG002 - for platforms with such a rule
        """What is printed if the credential may not change workflows; empty if it may."""
        return ""

    def git_role(self, user: str, password: str, repository: RepositoryRow) -> Role | None:
        """The role that basic authentication gives; None if the credential is not accepted."""
        raise NotImplementedError

    # Used by tests

    @property
    def url(self) -> str:
        """The platform's web address."""
        return f"https://127.0.0.1:{self.port}"

    def next(self, fault: Fault) -> None:
        """Apply faults to the next matching requests, in order."""
        self._faults.append(fault)

    def clear_faults(self) -> None:
        self._faults.clear()

    def add_repository(
        self, full_name: str, files: dict[str, str | bytes] | None = None, **fields: object
    ) -> RepositoryRow:
        """Add a repository with a real git repository; without files only the row."""
        repository = self.state.add_repository(full_name, **fields)
        if files is not None:
            self.git.create(repository, files)
        return repository

    def calls_of(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]

    # Used by subclasses

    def paged(
        self,
        call: Call,
        rows: list[Any],
        usual: int = 30,
        maximum: int = 100,
        size: str = "per_page",
    ) -> tuple[list[Any], dict[str, str]]:
        """One page of the rows, and the Link header for the others."""
        page, per_page = call.page(usual, maximum, size)
        page_rows = rows[(page - 1) * per_page : page * per_page]
        last = max(1, -(-len(rows) // per_page))
        relations = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
        address = f"{self.link_origin or self.url}{call.path}"
        links = [
            f"<{address}?{urlencode({**call.query, size: per_page, 'page': number})}>;"
            f' rel="{relation}"'
            for relation, number in relations.items()
            if number != page and 0 < number <= last
        ]
        return page_rows, {"Link": ", ".join(links)} if links else {}

    # Responses

    async def handle(self, request: web.Request) -> web.StreamResponse:
        git_path = _GIT_PATH.fullmatch(request.path)
        if git_path:
            return await self._git(request, git_path["name"], git_path["rest"])
        path = request.rel_url.raw_path
        if not path.startswith(f"{self.api_path}/"):
            return self._violation(f"{request.method} {path} is not part of the API")
        described = self.described_path(path.removeprefix(self.api_path))
        match = self.description.match(request.method, described)
        fault = self._fault_for(match.operation.name if match else "")
        if fault is not None and not fault.after:
            return await self._misbehave(request, fault)
        if match is None:
            return self._violation(f"{request.method} {path} is not described")
        response = await self._handle_operation(request, match)
        return response if fault is None else await self._misbehave(request, fault)

    async def _handle_operation(self, request: web.Request, match: Match) -> web.StreamResponse:
        name = match.operation.name
        raw = await request.read()
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            return self._violation(f"{name}: the body is not JSON")
        query = list(request.query.items())
        call = Call(
            name, match.values, dict(query), body, request.headers, request.rel_url.raw_path
        )
        problems = [
            *match.operation.request_faults(query, body),
            *self.header_faults(request.headers),
        ]
        if problems:
            return self._violation(f"{name}: {'; '.join(problems)}")
        self.calls.append(call)
        handler = self._handlers.get(name)
        if handler is None:
            return self._violation(f"{name}: the server has no handler for it")
        try:
            self.admit(call)
            if self.older_version and name in self.older_version.operations:
                raise Refusal(404, self.older_version.operations[name])
            response = await handler(self, call)
        except Refusal as refusal:
            return self._respond(self.error(refusal), refusal.status, refusal.headers)
        if response.status < 300 and response.content is not NO_BODY:
            for fault in match.operation.response_faults(response.content):
                self.violations.append(f"{name}: {fault}")
        if self.older_version:
            content = self.older_version.without_fields(response.content)
            response = replace(response, content=content)
        if call.name.startswith("GET ") and self.has_etags and response.status == 200:
            etag = self._etag(call, response)
            if call.headers.get("If-None-Match") == etag:
                self.not_modified += 1
                return web.Response(status=304, headers={**self.usual_headers(), "ETag": etag})
            response = replace(response, headers={**response.headers, "ETag": etag})
        self.count(call)
        return self._respond(response.content, response.status, response.headers)

    def _etag(self, call: Call, response: Response) -> str:
        """Another credential gets another ETag, as on GitHub."""
        credential = call.headers.get("Authorization", "")
        content = json.dumps([credential, response.content, call.query], sort_keys=True)
        return f'W/"{hashlib.sha256(content.encode()).hexdigest()}"'

    def count(self, call: Call) -> None:
        """A request that counts against the rate limit."""

    def _respond(
        self, content: Any, status: int, headers: Mapping[str, str] | None = None
    ) -> web.Response:
        sent = {**self.usual_headers(), **(headers or {})}
        if self.older_version:
            sent = self.older_version.without_headers(sent)
        if content is NO_BODY:
            return web.Response(status=status, headers=sent)
        return web.json_response(content, status=status, headers=sent)

    def _violation(self, message: str) -> web.Response:
        self.violations.append(message)
        return self._respond(self.error(Refusal(400, message)), 400)

    async def _git(self, request: web.Request, name: str, rest: str) -> web.StreamResponse:
        service = request.query.get("service", rest.removeprefix("/"))
        self.git_requests.append(f"{request.method} {request.path} {service}")
        fault = self._fault_for(service)
        if fault is not None:
            return await self._misbehave(request, fault)
        moved = self.state.by_former_name(name)
        repository = self.state.by_name(name)
        if repository is None and moved is not None:
            address = f"{self.url}/{moved.full_name}.git{rest}?{request.query_string}"
            return web.Response(status=301, headers={"Location": address})
        status = self._git_refusal(request.headers, repository, service)
        if status is None and repository is not None:
            _, password = _basic(request.headers.get("Authorization", "")) or ("", "")
            refusal = self.workflow_refusal(password)
            return await self.git.serve(request, repository, rest, workflow_refusal=refusal)
        challenge = {"WWW-Authenticate": 'Basic realm="git"'} if status == 401 else {}
        return web.Response(status=status or 404, headers=challenge, text="Not for you.")

    def _git_refusal(
        self, headers: Mapping[str, str], repository: RepositoryRow | None, service: str
    ) -> int | None:
        credential = _basic(headers.get("Authorization", ""))
        if credential is None:
            return 401
        if repository is None or not self.git.directory(repository).exists():
            return 404
        role = self.git_role(*credential, repository)
        if role in (None, "none"):
            return 401 if role is None else 404
        return 403 if service == "git-receive-pack" and role not in WRITING else None

    def _fault_for(self, name: str) -> Fault | None:
        for fault in self._faults:
            if not name.startswith(fault.on):
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
            return fault
        return None

    async def _misbehave(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        if fault.kind in ("cut", "slow"):
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        if fault.kind == "redirect_loop":
            return web.Response(status=301, headers={"Location": str(request.rel_url)})
        if fault.raw is not None:
            return web.Response(
                status=fault.status,
                body=fault.raw,
                headers=fault.headers,
                content_type=fault.content_type,
            )
        authorization = request.headers.get("PRIVATE-TOKEN") or request.headers.get(
            "Authorization", ""
        )
        message = fault.message.replace("{credential}", authorization.rpartition(" ")[2])
        refusal = Refusal(fault.status, message)
        return self._respond(self.error(refusal), fault.status, fault.headers)

    # Running

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Fails at the end if a request or response violated the description."""
        server = web.Server(self.handle)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls())
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()
        assert not self.violations, "\n".join(self.violations)


def _basic(header: str) -> tuple[str, str] | None:
    scheme, _, coded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(coded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return user, password
