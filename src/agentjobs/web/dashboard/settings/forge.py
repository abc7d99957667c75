"""Settings > Platforms > one of them: how it stands, and its secrets, which come in and never out.

But for the secret of its webhooks: shown once, on the answer to the form that made it.
"""

from starlette.responses import Response

from agentjobs.connections.connections import (
    find_connection,
    record_check,
    remove_connection,
    rotate_hook_secret,
)
from agentjobs.connections.verify import check_connection, verify_and_replace
from agentjobs.forges.connection import Connection
from agentjobs.forges.protocol import Account
from agentjobs.platform_sync.state import repos_of_connection
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.settings.forge_text import (
    PLATFORMS,
    for_people,
    hook_address,
    not_found,
)
from agentjobs.web.dashboard.settings.platform_access import in_time, persons_patience, platforms_of

HERE = "/settings/forges"


async def show(request: PageRequest) -> Response:
    return await detail_page(request, await connection_of(request))


async def check(request: PageRequest) -> Response:
    connection = await connection_of(request)
    try:
        account = await _asked(request, connection)
    except Problem as problem:
        # What was found out stands with the connection now.
        return await detail_page(request, await connection_of(request), problem=for_people(problem))
    return await detail_page(request, await connection_of(request), account=account)


async def replace(request: PageRequest) -> Response:
    connection = await connection_of(request)
    is_app = connection.kind == "app"
    given = request.form.text("private_key" if is_app else "token")
    try:
        async with in_time(connection.name, "The old credential is still in use."):
            replaced, account = await verify_and_replace(
                request.db,
                request.context.keys,
                platforms_of(request),
                request.organization,
                connection.id,
                f"{given}\n" if is_app else given,
                persons_patience(),
            )
    except Problem as problem:
        return await detail_page(
            request, connection, problem=for_people(problem), opened="credential"
        )
    return await detail_page(request, replaced, account=account, is_replaced=True)


async def rotate(request: PageRequest) -> Response:
    connection = await connection_of(request)
    secret = await rotate_hook_secret(
        request.db, request.context.keys, request.organization, connection.id
    )
    return await detail_page(request, await connection_of(request), secret=secret)


async def remove(request: PageRequest) -> Response:
    connection = await connection_of(request)
    try:
        await remove_connection(request.db, request.organization, connection.id)
    except Problem as problem:
        return await detail_page(request, connection, problem=for_people(problem))
    banner = f"{connection.name} is removed. Revoke its credential on {connection.url}."
    return request.redirect(HERE, banner=banner)


async def connection_of(request: PageRequest) -> Connection:
    """The one that the address names."""
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
    opened: str = "",
) -> Response:
    """`opened` is the form that was refused, which stays open."""
    return await request.render(
        "settings/forge.html",
        problem=problem,
        connection=connection,
        platform=PLATFORMS.get(connection.platform, connection.platform),
        here=f"{HERE}/{connection.id}",
        secret=secret,
        account=account,
        is_replaced=is_replaced,
        opened=opened,
        hook_url=hook_address(request.settings.effective_public_url, connection),
        connected=await repos_of_connection(request.db, connection.id),
    )


async def _asked(request: PageRequest, connection: Connection) -> Account:
    try:
        async with in_time(connection.name, "Try again later."):
            return await check_connection(
                request.db, platforms_of(request), connection.id, persons_patience()
            )
    except Problem as problem:
        if problem.code == "forge_unavailable":
            await record_check(request.db, connection.id, error=problem.message)
        raise


ROUTES: Routes = [
    PageRoute("GET", f"{HERE}/{{id}}", "member", show),
    PageRoute("POST", f"{HERE}/{{id}}/check", "admin", check),
    PageRoute("POST", f"{HERE}/{{id}}/credential", "admin", replace),
    PageRoute("POST", f"{HERE}/{{id}}/hook-secret", "admin", rotate),
    PageRoute("POST", f"{HERE}/{{id}}/remove", "admin", remove),
]
