"""Settings > Platforms > one of them: how it stands, and its secrets, which come in and never out.

But for the secret of its webhooks: shown once, on the answer to the form that made it.
"""

from starlette.responses import Response

from agentjobs.connections.connections import (
    find_connection,
    note_check,
    remove_connection,
    rotate_hook_secret,
)
from agentjobs.connections.verify import check_connection, replace_checked
from agentjobs.forges.connection import Connection
from agentjobs.forges.protocol import Account
from agentjobs.platform_sync.state import repos_of_connection
from agentjobs.problems import Problem
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.web.dashboard.settings.forge_text import (
    PLATFORMS,
    for_people,
    hook_address,
    not_found,
)
from agentjobs.web.dashboard.settings.platform_access import in_time, persons_patience, platforms_of

HERE = "/settings/forges"


async def show(visit: Visit) -> Response:
    return await detail_page(visit, await connection_of(visit))


async def check(visit: Visit) -> Response:
    connection = await connection_of(visit)
    try:
        account = await _asked(visit, connection)
    except Problem as problem:
        # What was found out stands with the connection now.
        return await detail_page(visit, await connection_of(visit), problem=for_people(problem))
    return await detail_page(visit, await connection_of(visit), account=account)


async def replace(visit: Visit) -> Response:
    connection = await connection_of(visit)
    is_app = connection.kind == "app"
    given = visit.form.text("private_key" if is_app else "token")
    try:
        async with in_time(connection.name, "The old credential is still in use."):
            replaced, account = await replace_checked(
                visit.db,
                visit.context.keys,
                platforms_of(visit),
                visit.organization,
                connection.id,
                f"{given}\n" if is_app else given,
                persons_patience(),
            )
    except Problem as problem:
        return await detail_page(
            visit, connection, problem=for_people(problem), opened="credential"
        )
    return await detail_page(visit, replaced, account=account, is_replaced=True)


async def rotate(visit: Visit) -> Response:
    connection = await connection_of(visit)
    secret = await rotate_hook_secret(
        visit.db, visit.context.keys, visit.organization, connection.id
    )
    return await detail_page(visit, await connection_of(visit), secret=secret)


async def remove(visit: Visit) -> Response:
    connection = await connection_of(visit)
    try:
        await remove_connection(visit.db, visit.organization, connection.id)
    except Problem as problem:
        return await detail_page(visit, connection, problem=for_people(problem))
    said = f"{connection.name} is removed. Revoke its credential on {connection.url}."
    return visit.redirect(HERE, said=said)


async def connection_of(visit: Visit) -> Connection:
    """The one that the address names."""
    try:
        return await find_connection(visit.db, visit.organization, visit.path("id"))
    except Problem:
        raise not_found() from None


async def detail_page(
    visit: Visit,
    connection: Connection,
    *,
    problem: Problem | None = None,
    secret: str = "",
    account: Account | None = None,
    is_replaced: bool = False,
    opened: str = "",
) -> Response:
    """`opened` is the form that was refused, which stays open."""
    return await visit.page(
        "settings/forge.html",
        problem=problem,
        connection=connection,
        platform=PLATFORMS.get(connection.platform, connection.platform),
        here=f"{HERE}/{connection.id}",
        secret=secret,
        account=account,
        is_replaced=is_replaced,
        opened=opened,
        hook_url=hook_address(visit.settings.effective_public_url, connection),
        connected=await repos_of_connection(visit.db, connection.id),
    )


async def _asked(visit: Visit, connection: Connection) -> Account:
    try:
        async with in_time(connection.name, "Try again later."):
            return await check_connection(
                visit.db, platforms_of(visit), connection.id, persons_patience()
            )
    except Problem as problem:
        if problem.code == "forge_unavailable":
            await note_check(visit.db, connection.id, error=problem.message)
        raise


PLACES: list[Place | OpenPlace] = [
    Place("GET", f"{HERE}/{{id}}", "member", show),
    Place("POST", f"{HERE}/{{id}}/check", "admin", check),
    Place("POST", f"{HERE}/{{id}}/credential", "admin", replace),
    Place("POST", f"{HERE}/{{id}}/hook-secret", "admin", rotate),
    Place("POST", f"{HERE}/{{id}}/remove", "admin", remove),
]
