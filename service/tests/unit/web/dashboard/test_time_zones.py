"""Times, filters and plots of a page are in one time zone, and the page names it."""

from datetime import UTC, datetime

import pytest

from agentjobs.web.dashboard.date_fields import between_days
from agentjobs.web.dashboard.text_filters import distance, exact, moment
from agentjobs.web.dashboard.zones import whole_hours_ahead, zone_named
from agentjobs_runtime.problems import Problem
from service.tests.unit.web.dashboard.event_streams import listen
from tests.support.users import write

TOKYO = "Asia/Tokyo"


def at(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


def set_zone(browser, zone):
    browser.http.cookies.set("agentjobs-zone-8080", zone, domain="127.0.0.1", path="/")
    return browser


async def move_job_to_end_of_january(dashboard):
    """Set the time to 04:30 on 1 February in Tokyo."""
    job = dashboard.samples["acme"].finished_job
    await write(
        dashboard.db,
        "UPDATE jobs SET created_at = :at WHERE id = :id",
        id=job,
        at=at("2026-01-31T19:30:00"),
    )
    return job


async def test_times_use_the_viewers_zone_or_utc(sample_dashboard):
    job = await move_job_to_end_of_january(sample_dashboard)
    page = await sample_dashboard.viewer.open(f"/jobs/{job}")
    assert 'title="2026-01-31 19:30:00"' in page.html
    assert "2026-01-31" in page.text
    assert "Times are in UTC." in page.text
    page = await set_zone(sample_dashboard.viewer, TOKYO).open(f"/jobs/{job}")
    assert 'title="2026-02-01 04:30:00"' in page.html
    assert "2026-02-01" in page.text
    assert "Times are in Asia/Tokyo." in page.text


@pytest.mark.parametrize("zone", ["Mars/Base", "America", "../../etc/passwd", "x" * 100, ""])
async def test_an_invalid_zone_means_utc(sample_dashboard, zone):
    page = await set_zone(sample_dashboard.viewer, zone).open("/jobs")
    assert page.status == 200
    assert "Times are in UTC." in page.text


@pytest.mark.parametrize("path", ["/jobs", "/settings/audit-log"])
async def test_date_filters_name_their_time_zone(sample_dashboard, path):
    assert "From (UTC)" in (await sample_dashboard.admin.open(path)).text
    assert "From (JST)" in (await set_zone(sample_dashboard.admin, TOKYO).open(path)).text


async def test_a_stream_uses_the_time_zone_of_its_page(sample_dashboard):
    set_zone(sample_dashboard.viewer, TOKYO)
    stream = await listen(
        sample_dashboard.app, sample_dashboard.viewer, "/jobs/stream?zone=UTC", events=1
    )
    assert "JST" not in stream.body.decode()
    job = await move_job_to_end_of_january(sample_dashboard)
    stream = await listen(
        sample_dashboard.app, sample_dashboard.viewer, "/jobs/stream?zone=UTC", events=1
    )
    assert job in stream.body.decode()
    assert "2026-01-31 19:30" in stream.body.decode()


async def test_plots_use_the_time_zone_of_the_page(sample_dashboard):
    page = await set_zone(sample_dashboard.viewer, "Asia/Kolkata").open("/")
    assert "Plots use Asia/Kolkata time." in page.text
    # UTC hours start at half past in this zone.
    assert ":30</text>" in page.html


@pytest.mark.parametrize(
    ("zone", "begin", "end"),
    [
        ("UTC", "2026-02-01T00:00:00", "2026-02-02T00:00:00"),
        (TOKYO, "2026-01-31T15:00:00", "2026-02-01T15:00:00"),
        ("America/New_York", "2026-02-01T05:00:00", "2026-02-02T05:00:00"),
    ],
)
def test_days_are_those_of_the_viewers_zone(zone, begin, end):
    day = "2026-02-01"
    assert between_days(day, day, zone_named(zone)) == (at(begin), at(end))


def test_a_day_with_a_clock_change_has_all_its_hours():
    begin, end = between_days("2026-10-25", "2026-10-25", zone_named("Europe/Berlin"))
    assert end - begin == 25 * 3_600_000


def test_a_missing_date_is_no_limit_and_extreme_dates_are_clamped():
    zone = zone_named("America/New_York")
    assert between_days("", "", zone) == (None, None)
    assert between_days("0001-01-01", "9999-12-31", zone)[0] >= 0
    with pytest.raises(Problem, match="enter a date"):
        between_days("yesterday", "", zone)


def test_hours_are_rounded_down_so_that_a_day_starts_on_its_date():
    now = at("2026-02-01T00:00:00")
    zones = ("UTC", TOKYO, "Asia/Kolkata", "America/St_Johns", "America/New_York")
    assert [whole_hours_ahead(now, zone_named(zone)) for zone in zones] == [0, 9, 5, -4, -5]


def test_an_exact_time_shows_utc_on_hover():
    html = str(exact(at("2026-01-31T19:30:00"), zone_named(TOKYO)))
    assert '<time datetime="2026-01-31T19:30:00.000Z" title="2026-01-31 19:30 UTC">' in html
    assert exact(None) == "never"


def test_a_moment_shows_the_exact_time_on_hover():
    then = at("2026-01-31T19:30:00")
    html = str(moment(then, then + 300_000, zone_named(TOKYO)))
    assert 'title="2026-02-01 04:30:00" data-moment>5 min ago</time>' in html
    assert moment(None, then) == "never"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (-59, "just now"),
        (-60, "1 min ago"),
        (-3_599, "59 min ago"),
        (-3_600, "1 h ago"),
        (-86_399, "23 h ago"),
        (-86_400 * 29, "29 d ago"),
        (-86_400 * 30, ""),
        (30, "in a moment"),
        (90, "in 1 min"),
        (86_400 * 2, "in 2 d"),
    ],
)
def test_a_distance_has_one_unit(seconds, text):
    assert distance(seconds * 1_000) == text
