"""Recorded responses of registries, and a local server that sends them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from agentjobs_dependencies.registries.all_registries import REGISTRY_APIS, parse_response
from agentjobs_dependencies.registries.versions import Published
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.registries import ECOSYSTEMS
from tests.support.paths import DATA

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_FILES = DATA / "registry_responses"
_HTML, _JSON = "text/html", "application/json"
RESPONSES = {
    ("PyPI", "requests"): ("pypi-requests.html", _HTML),
    ("PyPI", "urllib3"): ("pypi-urllib3.html", _HTML),
    ("PyPI", "django"): ("pypi-django.html", _HTML),
    ("PyPI", "pyyaml"): ("pypi-pyyaml.json", "application/vnd.pypi.simple.v1+json"),
    ("npm", "lodash"): ("npm-lodash.json", _JSON),
    ("npm", "minimist"): ("npm-minimist.json", _JSON),
    ("Go", "golang.org/x/text"): ("go-golang.org-x-text.txt", "text/plain"),
    ("Go", "gopkg.in/yaml.v3"): ("go-gopkg.in-yaml.v3.txt", "text/plain"),
    ("Go", "github.com/dgrijalva/jwt-go"): ("go-github.com-dgrijalva-jwt-go.txt", "text/plain"),
    ("crates.io", "time"): ("crates-time.jsonl", "text/plain"),
    ("Maven", "org.apache.logging.log4j:log4j-core"): ("maven-log4j-core.xml", "text/xml"),
    ("Maven", "org.springframework:spring-beans"): ("maven-spring-beans.xml", "text/xml"),
    ("RubyGems", "activerecord"): ("rubygems-activerecord.json", _JSON),
    ("Packagist", "guzzlehttp/psr7"): ("packagist-guzzlehttp-psr7.json", _JSON),
}


def recorded(ecosystem: str, name: str) -> Published:
    file, content_type = RESPONSES[ecosystem, name]
    return parse_response(ecosystem, name, content_type, (_FILES / file).read_bytes())


def hashes_of(published: Published, version: str | None) -> tuple[str, ...]:
    return next(
        (release.hashes for release in published.versions if release.version == version), ()
    )


@dataclass
class RegistryServer:
    """Each ecosystem's registry is below its own directory. `requests` has every request."""

    host: str
    requests: list[web.Request] = field(default_factory=list)

    def settings(self, user: str = "") -> Settings:
        """`user` may include a password, as in a URL."""
        at = f"http://{user}@{self.host}" if user else f"http://{self.host}"
        addresses = {f"registry_{name}_url": f"{at}/{name}" for name in ECOSYSTEMS.values()}
        return Settings(data_dir="unused", **addresses)


async def send_recorded(request: web.Request) -> web.StreamResponse:
    responses = {
        f"/{ECOSYSTEMS[ecosystem]}{REGISTRY_APIS[ecosystem].path_for(name)}": response
        for (ecosystem, name), response in RESPONSES.items()
    }
    if request.raw_path not in responses:
        raise web.HTTPNotFound
    file, content_type = responses[request.raw_path]
    body = (_FILES / file).read_bytes()
    return web.Response(body=body, headers={"Content-Type": content_type})


@asynccontextmanager
async def registry_server(handler: Handler = send_recorded) -> AsyncIterator[RegistryServer]:
    requests: list[web.Request] = []

    async def record(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return await handler(request)

    application = web.Application()
    application.router.add_get("/{path:.*}", record)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield RegistryServer(f"127.0.0.1:{runner.addresses[0][1]}", requests)
    finally:
        await runner.cleanup()
