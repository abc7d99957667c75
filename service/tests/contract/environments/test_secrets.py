"""Secrets of environments: who gets which value, and what a change retires, on both stores."""

from pathlib import Path

import pytest

from agentjobs.app.sealed_columns import SEALED_COLUMNS
from agentjobs.environments.secret_definition import SecretDefinition, SecretInput, parse_secret
from agentjobs.environments.secrets import (
    EnvironmentSecret,
    list_environment_secrets,
    open_proxy_secrets,
    open_registry_credentials,
    open_setup_secrets,
    remove_environment_secret,
    set_environment_secret,
)
from agentjobs.jobs.operations.disconnect import disconnect_repository
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.sealing import DecryptionFailed, SealingKeys
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.environments.brokered_host import BrokeredHost
from agentjobs_runtime.environments.images.model import RegistryCredential
from agentjobs_runtime.problems import Problem
from tests.support.jobs import JobHarness, insert_repo

VALUE = "npm_0123456789"
(ENVIRONMENTS,) = (column for column in SEALED_COLUMNS if column.kind == "environments")


class Secrets:
    """The secrets of acme, which has the repositories acme/shop and acme/site."""

    def __init__(self, db: Database, keys: SealingKeys, organization_id: str) -> None:
        self.db = db
        self.keys = keys
        self.organization_id = organization_id

    async def set(
        self, name: str, purpose: str, repo_id: str, value: str = VALUE, **fields: str
    ) -> EnvironmentSecret:
        entered = SecretInput(name=name, purpose=purpose, value=value, **fields)
        definition = parse_secret(entered, repo_id)
        return await set_environment_secret(
            self.db, self.keys, self.organization_id, definition, value
        )

    async def remove(self, name: str, repo_id: str) -> None:
        await remove_environment_secret(self.db, self.organization_id, repo_id, name)

    async def generation(self, repo_id: str) -> int:
        row = await self.db.fetch_one(
            "SELECT generation FROM repo_environments WHERE repo_id = :id", id=repo_id
        )
        return 0 if row is None else int(row["generation"])


@pytest.fixture
async def secrets(harness: JobHarness, database: Database, tmp_path: Path) -> Secrets:
    caller = await harness.organization("acme")
    await harness.organization("other")
    await database.transact(insert_repo, caller.organization_id, "acme/site", "ready")
    for name in ("shop", "site"):
        await database.transact(_rename, f"repo_{name}", f"acme/{name}")
    return Secrets(database, SealingKeys([], tmp_path / "encryption.key"), caller.organization_id)


async def test_setup_gets_the_values_of_its_own_repository(secrets: Secrets) -> None:
    stored = await secrets.set("NPM_TOKEN", "setup", "repo_shop")
    await secrets.set("NPM_TOKEN", "setup", "repo_site", "of the other one")
    await secrets.set("ART", "proxy", "repo_shop", host="a.test", header="X: {secret}")
    opened = await open_setup_secrets(secrets.db, secrets.keys, "repo_shop")
    assert opened == {"NPM_TOKEN": VALUE}
    assert await open_setup_secrets(secrets.db, secrets.keys, "repo_none") == {}
    assert stored.repo == "acme/shop"
    rows = await secrets.db.fetch_all("SELECT sealed FROM environment_secrets")
    assert all(VALUE.encode() not in bytes(row["sealed"]) for row in rows)


async def test_the_proxy_gets_hosts_with_their_rules(secrets: Secrets) -> None:
    await secrets.set("ART", "proxy", "repo_shop", host="a.test", header="X: {secret}")
    await secrets.set(
        "PKG",
        "proxy",
        "repo_shop",
        "t0ken",
        host="b.test:8443",
        header="Authorization: Bearer {secret}",
        path_prefix="/npm",
        methods="GET,POST",
        kind="npm",
    )
    art, pkg = await open_proxy_secrets(secrets.db, secrets.keys, "repo_shop")
    assert art == BrokeredHost(name="ART", host="a.test", header="X: {secret}", secret=VALUE)
    assert pkg == BrokeredHost(
        name="PKG",
        host="b.test:8443",
        header="Authorization: Bearer {secret}",
        secret="t0ken",
        path_prefix="/npm",
        methods=("GET", "POST"),
        kind="npm",
    )


async def test_images_are_fetched_with_the_credentials_of_the_organization(
    secrets: Secrets, harness: JobHarness
) -> None:
    await secrets.set("HUB", "registry", "", "hunter2", host="registry.test:5000", username="ada")
    opened = await open_registry_credentials(secrets.db, secrets.keys, secrets.organization_id)
    assert opened == [RegistryCredential("registry.test:5000", "ada", "hunter2")]
    other = harness.callers["other"].organization_id
    assert await open_registry_credentials(secrets.db, secrets.keys, other) == []


async def test_secrets_are_listed_without_values(secrets: Secrets) -> None:
    await secrets.set("NPM_TOKEN", "setup", "repo_shop")
    await secrets.set("HUB", "registry", "", host="registry.test", username="ada")
    listed = await list_environment_secrets(secrets.db, secrets.organization_id)
    assert [(each.repo, each.definition.name) for each in listed] == [
        ("", "HUB"),
        ("acme/shop", "NPM_TOKEN"),
    ]
    of_repo = await list_environment_secrets(secrets.db, secrets.organization_id, "repo_shop")
    assert [each.definition.name for each in of_repo] == ["NPM_TOKEN"]
    assert VALUE not in repr(listed)
    assert await ENVIRONMENTS.count_readable(secrets.db, secrets.keys) == 2


async def test_a_changed_secret_retires_the_snapshots_of_its_repository(secrets: Secrets) -> None:
    await secrets.set("NPM_TOKEN", "setup", "repo_shop")
    assert await secrets.generation("repo_shop") == 1
    await secrets.set("NPM_TOKEN", "setup", "repo_shop", "another value")
    assert await secrets.generation("repo_shop") == 2
    await secrets.set("ART", "proxy", "repo_shop", host="a.test", header="X: {secret}")
    await secrets.remove("ART", "repo_shop")
    assert await secrets.generation("repo_shop") == 4
    await secrets.set("HUB", "registry", "", host="registry.test", username="ada")
    await secrets.remove("HUB", "")
    with pytest.raises(Problem, match="has no secret 'NONE'"):
        await secrets.remove("NONE", "repo_shop")
    assert await secrets.generation("repo_shop") == 4
    assert await secrets.generation("repo_site") == 0


async def test_a_replaced_secret_has_only_its_new_purpose(secrets: Secrets) -> None:
    first = await secrets.set("TOKEN", "proxy", "repo_shop", host="a.test", header="X: {secret}")
    second = await secrets.set("TOKEN", "setup", "repo_shop", "another value")
    assert second.created_at == first.created_at
    assert second.definition == SecretDefinition(name="TOKEN", purpose="setup", repo_id="repo_shop")
    assert await open_proxy_secrets(secrets.db, secrets.keys, "repo_shop") == []
    opened = await open_setup_secrets(secrets.db, secrets.keys, "repo_shop")
    assert opened == {"TOKEN": "another value"}


@pytest.mark.parametrize(
    "change",
    [
        "host = 'evil.test'",
        "purpose = 'setup'",
        "repo_id = 'repo_site'",
        'usage = \'{"header":"Y: {secret}"}\'',
    ],
)
async def test_a_value_cannot_be_redirected_in_the_database(secrets: Secrets, change: str) -> None:
    await secrets.set("ART", "proxy", "repo_shop", host="a.test", header="X: {secret}")
    await secrets.db.transact(_change, change)
    with pytest.raises(DecryptionFailed, match="ART"):
        await _open_all(secrets)
    with pytest.raises(DecryptionFailed, match="ART"):
        await ENVIRONMENTS.count_readable(secrets.db, secrets.keys)


async def test_changes_are_audited_without_values(secrets: Secrets) -> None:
    await secrets.set("ART", "proxy", "repo_shop", host="a.test", header="X: {secret}")
    await secrets.remove("ART", "repo_shop")
    removed, added, *_ = await list_entries(
        secrets.db, secrets.organization_id, AuditFilter(), limit=5
    )
    assert (added.action, added.target) == ("secret.set", "ART")
    assert added.details == {"purpose": "proxy", "repo": "acme/shop", "host": "a.test"}
    assert (removed.action, removed.target) == ("secret.removed", "ART")
    assert removed.details == {"repo": "acme/shop"}


async def test_a_disconnected_repository_keeps_no_secret_and_gets_no_new_one(
    secrets: Secrets,
) -> None:
    await secrets.set("NPM_TOKEN", "setup", "repo_shop")
    await secrets.set("NPM_TOKEN", "setup", "repo_site")
    await disconnect_repository(secrets.db, "acme", "acme/shop")
    (rest,) = await list_environment_secrets(secrets.db, secrets.organization_id)
    assert rest.repo == "acme/site"
    assert await secrets.generation("repo_shop") == 0
    with pytest.raises(Problem, match="no longer connected"):
        await secrets.set("NPM_TOKEN", "setup", "repo_shop")


async def _rename(tx: Transaction, repo_id: str, name: str) -> None:
    await tx.execute("DELETE FROM repo_index")
    await tx.execute("UPDATE repos SET id = :id WHERE full_name = :name", id=repo_id, name=name)


async def _change(tx: Transaction, change: str) -> None:
    await tx.execute(f"UPDATE environment_secrets SET {change}")


async def _open_all(secrets: Secrets) -> None:
    for repo_id in ("repo_shop", "repo_site"):
        await open_proxy_secrets(secrets.db, secrets.keys, repo_id)
        await open_setup_secrets(secrets.db, secrets.keys, repo_id)
