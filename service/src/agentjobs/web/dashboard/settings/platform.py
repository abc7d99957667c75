"""Settings > Platforms > one connection: its state, credential, webhook secret and signing.

Credentials are never shown. The webhook secret is shown once, in response to the form that
creates it.
"""

import contextlib
from functools import partial

from starlette.responses import Response

from agentjobs.connections.commits import describe_commits
from agentjobs.connections.connections import (
    find_connection,
    record_check,
    remove_connection,
    rotate_hook_secret,
)
from agentjobs.connections.hook_urls import hook_url, reason_unreachable
from agentjobs.connections.signing import SigningChange, register_key, set_signing, sign_token
from agentjobs.connections.verify import (
    check_connection,
    verify_and_replace,
    verify_installation,
)
from agentjobs.jobs.queue.platform_outages import end_outages_of_connection
from agentjobs.platform_sync.hook_choices import register_hooks, remove_hooks
from agentjobs.platform_sync.hook_removal import remove_hooks_of_connection
from agentjobs.platform_sync.state import repos_of_connection
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.protocol import Account
from agentjobs.pulls import status_rows
from agentjobs.repos.hook_rows import make_due
from agentjobs.web.dashboard.page_route import PageHandler, PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.platform_access import (
    page_retry_budget,
    page_timeout,
    require_platforms,
)
from agentjobs.web.dashboard.settings.platform_text import PLATFORMS, SIGNING_OPTIONS, not_found
from agentjobs_runtime.problems import Problem

PATH = "/settings/platforms"


async def show(
    request: PageRequest, problem: Problem | None = None, *, open_form: str = ""
) -> Response:
    connection = await require_connection(request)
    return await detail_page(request, connection, problem=problem, open_form=open_form)


async def check(request: PageRequest) -> Response:
    connection = await require_connection(request)
    # A permission to manage webhooks may have been granted since.
    await request.db.transact(make_due, connection.id)
    await request.db.transact(status_rows.retry_failed, connection.id)
    account = await _check(request, connection)
    await end_outages_of_connection(request.db, connection.id)
    # Read again, because the check stores its result.
    return await detail_page(request, await require_connection(request), account=account)


async def replace(request: PageRequest) -> Response:
    connection = await require_connection(request)
    is_app = connection.kind == "app"
    credential = request.form.text("private_key" if is_app else "token")
    async with page_timeout(connection.name, "The old credential is still in use."):
        replaced, account = await verify_and_replace(
            request.db,
            request.context.keys,
            require_platforms(request),
            request.organization,
            connection.id,
            f"{credential}\n" if is_app else credential,
            page_retry_budget(),
        )
    await end_outages_of_connection(request.db, connection.id)
    return await detail_page(request, replaced, account=account, is_replaced=True)


async def replace_installation(request: PageRequest) -> Response:
    connection = await require_connection(request)
    async with page_timeout(connection.name, "The old installation is still in use."):
        replaced, account = await verify_installation(
            request.db,
            request.context.keys,
            require_platforms(request),
            request.organization,
            connection.id,
            request.form.text("installation_id"),
            page_retry_budget(),
        )
    await end_outages_of_connection(request.db, connection.id)
    return await detail_page(request, replaced, account=account)


async def rotate(request: PageRequest) -> Response:
    connection = await require_connection(request)
    secret = await rotate_hook_secret(
        request.db, request.context.keys, request.organization, connection.id
    )
    return await detail_page(request, await require_connection(request), secret=secret)


async def change_signing(request: PageRequest) -> Response:
    connection = await require_connection(request)
    changed = await set_signing(
        *(request.db, request.context.keys, request.organization, connection.id),
        request.form.text("signing"),
        is_new_key=request.form.flag("new_key"),
    )
    async with page_timeout(connection.name, "Add the key to the account yourself."):
        change = await register_key(require_platforms(request), changed, page_retry_budget())
    return await detail_page(request, change.connection, signing_change=change)


async def sign_for_platform(request: PageRequest) -> Response:
    connection = await require_connection(request)
    signature = await sign_token(
        *(request.db, request.context.keys, request.organization, connection.id),
        request.form.text("signed_token"),
    )
    return await detail_page(request, connection, token_signature=signature)


async def remove(request: PageRequest) -> Response:
    connection = await require_connection(request)
    left: list[str] = []
    # A platform that is away does not keep the connection from being removed.
    with contextlib.suppress(Problem):
        async with page_timeout(connection.name, ""):
            platforms = require_platforms(request)
            left = await remove_hooks_of_connection(request.db, platforms, connection.id)
    await remove_connection(request.db, request.organization, connection.id)
    banner = f"{connection.name} was removed. Revoke its credential on {connection.url}."
    if left:
        banner += f" Delete the webhooks there that could not be removed: {', '.join(left[:5])}."
    return request.redirect(PATH, banner=banner)


async def change_hooks(request: PageRequest) -> Response:
    """Register webhooks for all repositories of the connection, or remove them."""
    connection = await require_connection(request)
    if request.form.flag("remove"):
        await remove_hooks(request.db, request.organization, connection.id, [])
    else:
        public_url = request.settings.effective_public_url
        await register_hooks(request.db, request.organization, connection.id, [], public_url)
    return request.redirect(f"{PATH}/{connection.id}", banner="Webhooks are being updated.")


async def require_connection(request: PageRequest) -> Connection:
    """Raises Problem if the organization has no such connection."""
    try:
        return await find_connection(request.db, request.organization, request.path_param("id"))
    except Problem:
        raise not_found() from None


async def detail_page(
    request: PageRequest,
    connection: Connection,
    *,
    problem: Problem | None = None,
    secret: str = "",
    account: Account | None = None,
    is_replaced: bool = False,
    signing_change: SigningChange | None = None,
    token_signature: str = "",
    open_form: str = "",
) -> Response:
    """`open_form` is the form with an error, which stays open."""
    return await request.render(
        "settings/platform.html",
        problem=problem,
        connection=connection,
        platform=PLATFORMS.get(connection.platform, connection.platform),
        page_path=f"{PATH}/{connection.id}",
        secret=secret,
        account=account,
        is_replaced=is_replaced,
        signing_change=signing_change,
        token_signature=token_signature,
        signing_options=SIGNING_OPTIONS[connection.kind],
        commits=describe_commits(request.settings, connection),
        open_form=open_form,
        hook_url=hook_url(
            request.settings.effective_public_url, connection.platform, connection.id
        ),
        status_error=await status_rows.latest_error(request.db, connection.id),
        unreachable=reason_unreachable(request.settings.effective_public_url, connection.url),
        connected=await repos_of_connection(request.db, connection.id),
    )


async def _check(request: PageRequest, connection: Connection) -> Account:
    try:
        async with page_timeout(connection.name, "Try again later."):
            return await check_connection(
                request.db, require_platforms(request), connection.id, page_retry_budget()
            )
    except Problem as problem:
        if problem.code == "forge_unavailable":
            await record_check(request.db, connection.id, error=problem.message)
        raise


def _form(name: str, handler: PageHandler, *, open_form: str = "") -> PageRoute:
    problem_page = partial(show, open_form=open_form)
    return PageRoute("POST", f"{PATH}/{{id}}/{name}", "admin", handler, problem_page=problem_page)


ROUTES: Routes = [
    PageRoute("GET", f"{PATH}/{{id}}", "member", show),
    _form("check", check),
    _form("credential", replace, open_form="credential"),
    _form("installation", replace_installation, open_form="installation"),
    PageRoute("POST", f"{PATH}/{{id}}/hook-secret", "admin", rotate),
    _form("signing", change_signing),
    _form("signed-token", sign_for_platform),
    _form("webhooks", change_hooks),
    _form("remove", remove),
]
