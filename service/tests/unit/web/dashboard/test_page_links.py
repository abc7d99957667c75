"""Links to a part of a page lead to that part, such as a form that opens."""

from urllib.parse import urldefrag, urljoin

from agentjobs.web.dashboard.navigation import OTHERS
from service.tests.unit.web.dashboard.addresses import GETS, address_of

_NOT_PAGES = ("/stream", "/log", "/artifacts/{name}")


async def test_a_link_to_a_part_of_a_page_leads_to_it(sample_dashboard):
    pages = {}

    async def page_of(path):
        if path not in pages:
            pages[path] = await sample_dashboard.admin.open(path)
        return pages[path]

    routes = [route for route in GETS if route.role != "operator"]
    addresses = [address_of(route, sample_dashboard.samples["acme"]) for route in routes]
    targets = {
        urljoin(address, link)
        for route, address in zip(routes, addresses, strict=True)
        if not route.path.endswith(_NOT_PAGES)
        for link in (await page_of(address)).links
    }
    parts = {target for target in targets if target.startswith("/") and "#" in target}
    # The search leads to forms.
    assert {link.path for link in OTHERS if "#" in link.path} <= parts
    for target in parts:
        path, part = urldefrag(target)
        ids = [attributes.get("id") for _, attributes in (await page_of(path)).tags]
        assert part in ids, target
