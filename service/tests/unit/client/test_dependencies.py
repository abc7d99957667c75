"""Both clients request pages of dependencies as they are needed."""

import httpx

from service.tests.unit.client.test_calls import caller, fake_service  # noqa: F401 - the fixture of both clients

DEPENDENCY = {"ecosystem": "PyPI", "name": "urllib3", "direct": False, "manifest": "uv.lock"}
ADVISORY = {"id": "GHSA-1", "severity": "high", "fix_version": "2.0.6", "new": True}


def page(*dependencies, next_cursor=None):
    document = {"dependencies": list(dependencies), "next_cursor": next_cursor, "new": True}
    return httpx.Response(200, json=document)


def test_dependencies_are_read_page_by_page(caller):  # noqa: F811 - it is the fixture
    handle, requests = fake_service(
        page({**DEPENDENCY, "version": "2.0.5", "advisories": [ADVISORY]}, next_cursor="c1"),
        page(DEPENDENCY),
    )
    dependencies = caller.call(handle, "dependencies", "repo/1", direct=False, vulnerable=True)
    assert [(dependency.name, dependency.version) for dependency in dependencies] == [
        ("urllib3", "2.0.5"),
        ("urllib3", None),
    ]
    assert dependencies[0].advisories[0].fix_version == "2.0.6"
    assert requests[0].url.raw_path == (
        b"/v1/repos/repo%2F1/dependencies?direct=false&vulnerable=true&limit=1000"
    )
    assert requests[1].url.params["cursor"] == "c1"
