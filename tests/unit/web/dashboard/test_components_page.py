"""/design: the components of the dashboard, in development."""

import re
from importlib import resources
from pathlib import Path

from tests.unit.web.dashboard.conftest import open_sample_dashboard

_TEMPLATES = resources.files("agentjobs.web.dashboard") / "templates"


async def test_the_page_exists_only_in_development(sample_dashboard):
    assert (await sample_dashboard.admin.get("/design")).status_code == 404


async def test_everyone_who_is_signed_in_sees_it_in_development(
    sample_template, tmp_path: Path
) -> None:
    async with open_sample_dashboard(sample_template, tmp_path, development=True) as dashboard:
        page = await dashboard.viewer.open("/design")
        assert (await dashboard.anonymous.get("/design")).status_code == 303
    assert page.status == 200
    assert page.is_safe()


def test_it_shows_every_component() -> None:
    shown = (_TEMPLATES / "components.html").read_text()
    components = set(re.findall(r"macro (\w+)\(", (_TEMPLATES / "parts.html").read_text()))
    # Parts of `field` and `choice`.
    components -= {"description_attributes", "field_notes"}
    assert components
    assert [name for name in components if f"{name}(" not in shown] == []
