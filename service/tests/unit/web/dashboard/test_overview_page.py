"""/: statistics, and a link from each number to the list that it counts."""

import re

FAILED = "/settings/webhooks/delivery-log?status=failed&days="


async def test_each_number_links_to_the_list_that_it_counts(sample_dashboard):
    page = await sample_dashboard.member.open("/")
    samples = sample_dashboard.samples["acme"]
    for status in ("running", "queued"):
        path = f"/jobs?status={status}"
        assert path in page.links
        listed = await sample_dashboard.member.open(path)
        assert f"/jobs/{getattr(samples, f'{status}_job')}" in listed.links
    assert f"{FAILED}1" in page.links
    assert samples.delivery in (await sample_dashboard.member.open(f"{FAILED}1")).html
    for span, days in (("7d", "7"), ("30d", "30")):
        assert FAILED + days in (await sample_dashboard.member.open(f"/?span={span}")).links


async def test_a_viewer_sees_no_link_to_the_delivery_log(sample_dashboard):
    page = await sample_dashboard.viewer.open("/")
    assert "Failed deliveries" in page.text
    assert not [link for link in page.links if "delivery-log" in link]


async def test_every_plot_is_shown_with_its_numbers(sample_dashboard):
    page = await sample_dashboard.viewer.open("/")
    for title in (
        *("Finished jobs", "Average queue wait and duration"),
        *("Webhook deliveries", "Model cost"),
    ):
        assert title in page.text
    assert "No model cost in this period." in page.text
    assert len(re.findall("<svg", page.html)) >= 3
    for name in ("completed", "failed", "cancelled", "duration", "delivered"):
        assert name in page.text


async def test_a_job_without_a_title_names_its_agent_and_repository_once(sample_dashboard):
    page = await sample_dashboard.viewer.open("/")
    assert re.search(r"\S+ on acme/\S+", page.text)
    assert not re.search(r"(\S+ on acme/\S+)\s+\1", page.text)
