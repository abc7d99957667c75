"""Scripts and styles are small, compressed, and cached under names with their digest."""

import gzip
import re

import httpx
import pytest
from starlette.applications import Starlette

from agentjobs.web.dashboard.static_files import ROUTES, static_files, static_url

MAX_BYTES = 60_000


@pytest.fixture
async def client():
    transport = httpx.ASGITransport(Starlette(routes=ROUTES))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


def test_all_files_together_stay_below_the_limit():
    assert sum(len(each.content) for each in static_files().values()) <= MAX_BYTES


def test_comments_and_indentation_are_not_sent():
    lines = static_files()["dashboard.js"].content.decode().splitlines()
    assert len(lines) > 100
    assert [line for line in lines if line.startswith((" ", "//"))] == []


def test_styles_are_sent_without_comments_and_space_around_rules():
    styles = static_files()["dashboard.css"].content.decode()
    assert styles.startswith(":root{")
    assert re.findall(r"/\*|\s[{};]|[{};]\s", styles) == []


async def test_a_file_is_cached_for_a_year_under_its_digest(client):
    response = await client.get(static_url("dashboard.css"))
    assert response.status_code == 200
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-type"] == "text/css; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("accepted", ["gzip", "br, GZIP;q=0.5", "deflate , gzip"])
async def test_a_file_is_compressed_for_those_who_accept_it(client, accepted):
    address = static_url("dashboard.js")
    async with client.stream("GET", address, headers={"Accept-Encoding": accepted}) as response:
        body = b"".join([piece async for piece in response.aiter_raw()])
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(body) == static_files()["dashboard.js"].content


@pytest.mark.parametrize("accepted", ["identity", "br", "gzip;q=0"])
async def test_others_get_the_plain_file(client, accepted):
    response = await client.get(static_url("icon.svg"), headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in response.headers
    assert response.content == static_files()["icon.svg"].content


@pytest.mark.parametrize("name", ["dashboard.css", "dashboard.0123456789ab.css"])
async def test_a_name_without_the_current_digest_gets_the_current_file_uncached(client, name):
    response = await client.get(f"/static/{name}")
    assert response.content == static_files()["dashboard.css"].content
    assert response.headers["cache-control"] == "no-cache"


def test_a_script_imports_others_by_their_digest():
    imports = re.compile(rb'from "\./([\w.]+)"')
    names = [name for file in static_files().values() for name in imports.findall(file.content)]
    assert all(f"/static/{name.decode()}" in map(static_url, static_files()) for name in names)
