"""Sign-in without HTTPS is allowed only if browser and service are on the same machine."""

import httpx
import pytest

from agentjobs.web.application import build_application
from agentjobs.web.context import WebContext
from tests.support.jobs import job_harness

HERE = "http://127.0.0.1:8080"


async def status(dashboard, *, client="127.0.0.1", trusted=(), **headers):
    settings = dashboard.context.settings
    harness = job_harness(
        dashboard.db, type(settings)(data_dir=settings.data_dir, **_proxies(trusted))
    )
    context = WebContext(harness.context, dashboard.context.authenticator)
    transport = httpx.ASGITransport(build_application(context), client=(client, 4321))
    request_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as browser:
        response = await browser.get("/sign-in", headers={"Accept": "text/html", **request_headers})
    await context.close()
    return response.status_code


def _proxies(trusted):
    return {"trusted_proxies": list(trusted)}


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:9000", "[::1]:8080", "127.0.0.2"])
async def test_a_loopback_host_allows_sign_in(dashboard, host):
    assert await status(dashboard, host=host) == 200


@pytest.mark.parametrize(
    "host", ["jobs.example", "192.0.2.1:8080", "localhost.evil.example", "[::1", "0.0.0.0"]
)
async def test_another_host_does_not_allow_sign_in(dashboard, host):
    assert await status(dashboard, host=host) == 403


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x_forwarded_for", "192.0.2.9"),
        ("x_forwarded_for", "127.0.0.1"),
        ("x_forwarded_proto", "http"),
        ("forwarded", "for=192.0.2.9"),
    ],
)
async def test_an_untrusted_proxy_does_not_allow_sign_in(dashboard, name, value):
    assert await status(dashboard, **{name: value}) == 403
    assert await status(dashboard, trusted=["10.0.0.0/8"], **{name: value}) == 403


async def test_behind_a_trusted_proxy_the_browsers_address_decides(dashboard):
    own = ["127.0.0.1"]
    assert await status(dashboard, trusted=own, x_forwarded_for="127.0.0.1") == 200
    assert await status(dashboard, trusted=own, x_forwarded_for="192.0.2.9") == 403
    # Only the last address is from the trusted proxy.
    assert await status(dashboard, trusted=own, x_forwarded_for="127.0.0.1, 192.0.2.9") == 403
