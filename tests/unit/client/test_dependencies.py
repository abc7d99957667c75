"""Dependencies through the clients: pages are asked for as they are needed."""

import httpx

from tests.unit.client.test_calls import answering, caller  # noqa: F401 - the fixture of both clients

DEPENDENCY = {"ecosystem": "PyPI", "name": "urllib3", "direct": False, "manifest": "uv.lock"}
ADVISORY = {"id": "GHSA-1", "severity": "high", "fix_version": "2.0.6", "new": True}


def page(*dependencies, next_cursor=None):
    document = {"dependencies": list(dependencies), "next_cursor": next_cursor, "new": True}
    return httpx.Response(200, json=document)


def test_dependencies_are_read_page_by_page(caller):  # noqa: F811 - it is the fixture
    handle, requests = answering(
        page({**DEPENDENCY, "version": "2.0.5", "advisories": [ADVISORY]}, next_cursor="c1"),
        page(DEPENDENCY),
    )
    found = caller.call(handle, "dependencies", "repo/1", direct=False, vulnerable=True)
    assert [(one.name, one.version) for one in found] == [("urllib3", "2.0.5"), ("urllib3", None)]
    assert found[0].advisories[0].fix_version == "2.0.6"
    assert requests[0].url.raw_path == (
        b"/v1/repos/repo%2F1/dependencies?direct=false&vulnerable=true&limit=1000"
    )
    assert requests[1].url.params["cursor"] == "c1"
