"""A real Prometheus, configured as documented, has data for every query of the dashboard."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import yaml

from agentjobs.jobs.model import Usage
from tests.alerts.deployment import Deployment
from tests.alerts.promtool import BIN
from tests.support.postgres import free_port
from tests.support.promql import ALERTS, DOCUMENT, SCRAPING, alert_rules, dashboard_queries
from tests.support.receiver import receiver
from tests.support.service import wait_until
from tests.support.webhook_service import add_endpoint

TOKEN = "look-here"


@contextmanager
def prometheus(directory: Path, scrape_configs: list[dict[str, Any]]) -> Iterator[httpx.Client]:
    """Scrapes every second."""
    configuration = {
        **yaml.safe_load(SCRAPING.read_text()),
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": scrape_configs,
    }
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(configuration))
    address = f"127.0.0.1:{free_port()}"
    command = [
        str(BIN / "prometheus"),
        f"--config.file={path}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address={address}",
    ]
    with (
        (directory / "prometheus.log").open("w") as log,
        subprocess.Popen(command, stderr=log) as process,
        httpx.Client(base_url=f"http://{address}/api/v1") as client,
    ):
        try:
            yield client
        finally:
            process.kill()


def result(client: httpx.Client, query: str) -> list[Any]:
    try:
        response = client.get("/query", params={"query": query})
    except httpx.TransportError:
        return []
    if response.status_code == 503:
        return []
    assert response.status_code == 200, response.text
    answer: list[Any] = response.json()["data"]["result"]
    return answer


def with_targets(configuration: dict[str, Any], *targets: str) -> dict[str, Any]:
    for config, target in zip(configuration["static_configs"], targets, strict=True):
        config["targets"] = [target]
    return configuration


def packaged(deployment: Deployment) -> dict[str, Any]:
    [configuration] = yaml.safe_load(SCRAPING.read_text())["scrape_configs"]
    addresses = deployment.addresses
    return with_targets(configuration, addresses["serve"], addresses["worker"])


def documented(deployment: Deployment) -> dict[str, Any]:
    """The scrape of the API's address with a token, from docs/monitoring.md."""
    [block] = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    [configuration] = yaml.safe_load(block)["scrape_configs"]
    token = deployment.directory / "token"
    token.write_text(TOKEN)
    assert configuration["scheme"] == "https"
    configuration["scheme"] = "http"
    configuration["authorization"]["credentials_file"] = str(token)
    url = deployment.services["serve"].root_url
    return with_targets(configuration, url.removeprefix("http://"))


def test_every_query_of_the_dashboard_has_data(deployment: Deployment) -> None:
    usage = msgspec.json.encode(
        Usage(input_tokens=9, output_tokens=1, cost_usd=0.1, requests=1)
    ).decode()
    api = deployment.start_both(AGENTJOBS_METRICS_TOKEN=TOKEN)
    with receiver() as receiving:
        add_endpoint(deployment.services["serve"], receiving.url)
        assert api.finish("acme/shop", "crash")["status"] == "failed"
        deployment.change("UPDATE jobs SET usage = :usage", usage=usage)
        scrapes = [packaged(deployment), documented(deployment)]
        with prometheus(deployment.directory, scrapes) as client:
            up = 'up{job="agentjobs"} == 1'
            wait_until(lambda: len(result(client, up)) == 3, "all targets to be scraped")
            # Attempts are counted by increase, which needs two scrapes.
            assert api.finish("acme/shop", "idle")["status"] == "failed"
            for query in dashboard_queries():
                wait_until(lambda query=query: result(client, query), f"data for {query}", 60)
            check_rules(client)


def check_rules(client: httpx.Client) -> None:
    def rules() -> list[dict[str, Any]]:
        groups = client.get("/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    names = [rule["alert"] for rule in alert_rules()]
    wait_until(lambda: {rule["health"] for rule in rules()} == {"ok"}, "rules to be evaluated")
    assert [rule["name"] for rule in rules()] == names
