"""API keys and webhooks, from the settings pages to their effect."""

import re
from typing import Any

import httpx
from playwright.async_api import Page, expect

from agentjobs_client import verify_webhook
from tests.browser.conftest import OpenPage
from tests.browser.service import REPO, BrowserTestService
from tests.support.receiver import receiver
from tests.support.service import wait_until


async def test_a_key_is_copied_works_and_is_refused_once_it_is_revoked(
    open_page: OpenPage, service: BrowserTestService, admin_state: Any
) -> None:
    page = await open_page(
        storage_state=admin_state, permissions=["clipboard-read", "clipboard-write"]
    )
    await page.goto("/settings/api-keys#add")
    await page.get_by_label("Name", exact=True).fill("CI of the shop")
    await page.get_by_role("button", name="Create key").click()
    copy = page.get_by_role("button", name="Copy", exact=True).first
    await copy.click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    key = await page.evaluate("navigator.clipboard.readText()")
    assert key == await page.get_by_label("New key", exact=True).inner_text()

    def request_status() -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.get(f"{service.url}/v1/agents", headers=headers).status_code

    assert request_status() == 200
    await page.goto("/settings/api-keys")
    assert key not in await page.content()
    row = page.get_by_role("row", name="CI of the shop")
    await row.get_by_label("Actions: ").click()
    await row.get_by_text("Revoke…").click()
    await row.get_by_role("button", name="Revoke key").click()
    await expect(page.get_by_role("main").get_by_role("status")).to_contain_text("revoked")
    wait_until(lambda: request_status() == 401, "the key to be refused", seconds=1)


async def test_a_link_to_a_form_opens_it_again_after_it_was_closed(admin: Page) -> None:
    # No other test stores one, so the list is empty.
    await admin.goto("/settings/secrets")
    link, form = admin.get_by_role("link", name="Add a secret"), admin.locator("#add")
    for _ in range(2):
        await link.click()
        await expect(form).to_have_attribute("open", "")
        await form.locator("summary").first.click()
        await expect(form).not_to_have_attribute("open", "")


async def test_a_failed_delivery_is_explained_and_sent_again(
    admin: Page, service: BrowserTestService
) -> None:
    with receiver(lambda _: 500) as webhook_receiver:
        await admin.goto("/settings/webhooks")
        await admin.get_by_text("Add webhook").first.click()
        await admin.get_by_label("Endpoint URL", exact=True).fill(webhook_receiver.url)
        await admin.get_by_role("button", name="Add webhook").click()
        secret = await admin.get_by_label("Webhook secret").inner_text()

        job = service.api.finish(REPO, "crash")
        await admin.goto(f"/settings/webhooks/delivery-log?job={job['job_id']}")
        failed = (
            admin.get_by_role("row").filter(has_text=webhook_receiver.url).filter(has_text="failed")
        )
        first = failed.filter(has_text="job.queued")
        await expect(first).to_be_visible(timeout=20_000)
        await first.get_by_role("rowheader").get_by_role("link").click()

        attempt = admin.locator("details.card").first
        await expect(attempt).to_contain_text("Response 500")
        await expect(attempt.get_by_label("Request headers")).to_contain_text(
            re.compile("x-service-signature-256: sha256=", re.IGNORECASE)
        )
        await expect(admin.get_by_label("Body", exact=True)).to_contain_text(job["job_id"])

        webhook_receiver.respond = lambda _: 204
        before = len(webhook_receiver.received)
        await admin.get_by_role("button", name="Redeliver").click()
        await expect(admin.get_by_role("main").get_by_role("status")).to_contain_text(
            "Redelivery started"
        )
        sent_again = webhook_receiver.wait_for(before + 1)[before]
        event = verify_webhook(sent_again.body, dict(sent_again.headers), secret)
        assert event.job_id == job["job_id"]
        await expect(admin.locator(".status-line .badge.delivered")).to_be_visible(timeout=20_000)
        await expect(admin.locator("details.card").first).to_contain_text("Response 204")

        await admin.goto("/settings/webhooks")
        await admin.get_by_role("link", name=webhook_receiver.url).click()
        assert secret not in await admin.content()
        await admin.get_by_label("Actions: ").click()
        await admin.get_by_text("Remove webhook…").click()
        await admin.get_by_role("button", name="Remove webhook", exact=True).click()
        await expect(admin.get_by_role("link", name=webhook_receiver.url)).to_have_count(0)
