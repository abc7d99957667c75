import re
from importlib.metadata import version
from pathlib import Path

import pytest

from agentjobs_runtime.settings import Settings, SettingsError, is_loopback, load, unknown_variables


def from_file(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "agentjobs.toml"
    path.write_text(text)
    return {"AGENTJOBS_DATA_DIR": str(tmp_path)}


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    environ = from_file(tmp_path, 'port = 1\nhost = "::1"\nslots = 7\n')
    environ |= {"AGENTJOBS_PORT": "2", "AGENTJOBS_HOST": "127.0.0.2"}
    settings = load(environ, port=3, host=None)
    assert (settings.port, settings.host, settings.slots) == (3, "127.0.0.2", 7)


def test_the_default_store_is_sqlite_in_the_data_directory(tmp_path: Path) -> None:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path)})
    assert settings.effective_database_url == f"sqlite:///{tmp_path}/agentjobs.db"
    assert settings.effective_public_url == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://agents.example.com", ""),
        ("https://agents.example.com/", ""),
        ("http://[::1]:8080", ""),
        ("https://example.com/agents", "/agents"),
        ("https://example.com:8443/tools/agents.v1/", "/tools/agents.v1"),
    ],
)
def test_the_public_url_may_have_a_path(tmp_path: Path, url: str, path: str) -> None:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path), "AGENTJOBS_PUBLIC_URL": url})
    assert settings.public_path == path
    assert settings.effective_public_url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "agents.example.com",
        "ftp://example.com",
        "https://",
        "https:///agents",
        "https://user:secret@example.com",
        "https://example.com/agents?x=1",
        "https://example.com/?",
        "https://example.com#top",
        "https://example.com:99999",
        "https://example.com:port",
        "https://[::1",
        "https://example.com//agents",
        "https://example.com/../agents",
        "https://example.com/my agents",
        "https://example.com/%2e",
        "https://exam ple.com",
        "https://exam\x1bple.com",
    ],
)
def test_a_public_url_that_cannot_work_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="public_url") as raised:
        load({"AGENTJOBS_DATA_DIR": str(tmp_path), "AGENTJOBS_PUBLIC_URL": url})
    assert "must have the form https://HOST" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "direct_url"),
    [
        ("", "postgresql://db/agentjobs"),
        ("postgresql://pooler/agentjobs", "sqlite:///agentjobs.db"),
    ],
)
def test_only_postgresql_can_be_behind_a_pooler(tmp_path: Path, url: str, direct_url: str) -> None:
    environment = {
        "AGENTJOBS_DATA_DIR": str(tmp_path),
        "AGENTJOBS_DATABASE_URL": url,
        "AGENTJOBS_DATABASE_DIRECT_URL": direct_url,
    }
    with pytest.raises(SettingsError, match="database_direct_url"):
        load(environment)


def test_the_default_plans_are_free_pro_and_enterprise(tmp_path: Path) -> None:
    plans = load({"AGENTJOBS_DATA_DIR": str(tmp_path)}).plans
    limits = {plan.name: plan.concurrent_jobs for plan in plans}
    assert limits == {"free": 1, "pro": 5, "enterprise": 50}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = ", "line 1"),
        ('[[agents]]\nid = "a"\nname = "A"\ncommand = "sh"\n', "line 4: agents[0].command"),
        ('x = 1\n[[agents]]\nid = "a"\n', "line 1: x"),
        ('[[agents]]\nid = "a"\nname = "A"\ncommand = ["sh"]\nimage = "i"\n', "line 5"),
        ('[[plans]]\nname = "a"\n', "line 1: plans[0]: Object missing"),
        ('data_dir = "/x"\n', "line 1: data_dir"),
        ('\n\nport = "a"\n', "line 3: port"),
        ("\nslots = -1\n", "line 2: slots"),
        ("sandbox_uid_base = 1\n", "line 1: sandbox_uid_base: must be at least"),
        ("sandbox_uid_base = 4294967294\n", "line 1: sandbox_uid_base: must be at most"),
        ("limit_file_mib = 99999999999999\n", "line 1: limit_file_mib"),
        ('encryption_key = "x"\n', "line 1: encryption_key: set it with"),
        (f"plans = {'[' * 5_000}\n", "nested too deeply"),
        ('[[plans]]\nname = "none"\nconcurrent_jobs = 0\n', "line 1: plans[0]"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_reason(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(from_file(tmp_path, text))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "environ",
    [
        {"AGENTJOBS_PORT": "x"},
        {"AGENTJOBS_PORT": "70000"},
        {"AGENTJOBS_LEASE_SECONDS": "1"},
        {"AGENTJOBS_SANDBOX": "docker"},
        {"AGENTJOBS_SLOTS": "-1"},
        {"AGENTJOBS_HOST": ""},
        {"AGENTJOBS_LEASE_SECONDS": "inf"},
        {"AGENTJOBS_RATE_LIMIT_PER_SECOND": "nan"},
        {"AGENTJOBS_METRICS_BIND": "somewhere"},
        {"AGENTJOBS_METRICS_BIND": "127.0.0.1:99999"},
        {"AGENTJOBS_LOG_LEVEL": "loud"},
        {"AGENTJOBS_QUEUE_LIMIT": "0"},
        {"AGENTJOBS_DATABASE_URL": "mysql://x"},
        {"AGENTJOBS_PUBLIC_URL": "example.com"},
        {"AGENTJOBS_CONFIG": "/nowhere/agentjobs.toml"},
    ],
)
def test_an_invalid_setting_is_refused(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        load({"AGENTJOBS_DATA_DIR": str(tmp_path), **environ})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("send_webhooks", "maybe"),
        *(("webhook_timeout_seconds", text) for text in ("x", "nan", "0", "301")),
        *(("webhook_connect_seconds", text) for text in ("x", "inf", "0", "16")),
        *(("webhook_lease_seconds", text) for text in ("", "x", "19.9", "3601")),
        *(("webhook_retry_seconds", text) for text in ("x", "5,", "0", "-1", "nan", "604801")),
        ("webhook_retry_seconds", "1,2,3,4"),
        *(("webhook_concurrency", text) for text in ("x", "1.5", "0", "10001")),
        *(("webhook_endpoint_concurrency", text) for text in ("x", "0", "1001")),
        *(("setup_seconds", text) for text in ("0", "nan", "86401")),
        *(("start_seconds", text) for text in ("0", "x")),
        *(("environment_image_max_mib", text) for text in ("0", "1.5")),
        ("environment_cache_max_mib", "-1"),
        *(("insecure_registries", text) for text in ("http://a", "a/b", "a:", "a b", "a,", "[::1")),
        ("kubernetes_namespace", "A b"),
        ("kubernetes_namespace", "a" * 64),
        *(("kubernetes_image", text) for text in ("-x", "a b", "a" * 513)),
        ("kubernetes_image_pull_policy", "always"),
        *(("kubernetes_image_pull_secrets", text) for text in ("a b", "A", "a,")),
        ("kubernetes_user_namespaces", "yes"),
        *(("kubernetes_pending_seconds", text) for text in ("0", "x", "86401")),
        *(("kubernetes_cache_claim", text) for text in ("A", "a b", "/a", "a" * 254)),
        *(("kubernetes_cache_max_bytes", text) for text in ("0", "x")),
        *(("kubernetes_worker_labels", text) for text in ("a", "=b", "a=b c", "/a=b", "a=b,")),
        *(("kubernetes_worker_cidrs", text) for text in ("x", "10.0.0.1/8", "10.0.0.0/33")),
        *(("webhook_disable_days", text) for text in ("x", "nan", "0")),
        *(("delivery_retention_days", text) for text in ("x", "-1")),
    ],
)
def test_an_invalid_setting_is_named(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"\b{name}\b"):
        load({f"AGENTJOBS_{name.upper()}": text}, data_dir=str(tmp_path))


@pytest.mark.parametrize(
    "proxy",
    [
        *("http://proxy:3128", "http://proxy:3128/", "http://proxy", "HTTP://Proxy.Example.com.:1"),
        *("http://127.0.0.1:3128", "http://[::1]:3128", "http://[fd00::1]/"),
        *("http://user:password@proxy:3128", "http://user:p%40ss^@[::1]:3128/", "http://user@a_b"),
    ],
)
def test_a_proxy_is_a_host_and_may_have_a_port_and_a_password(proxy: str, tmp_path: Path) -> None:
    environ = {"AGENTJOBS_WEBHOOKS_PROXY": proxy}
    assert load(environ, data_dir=str(tmp_path)).webhooks_proxy == proxy


@pytest.mark.parametrize(
    "proxy",
    [
        *("proxy:3128", "https://proxy", "http:proxy", "http://", "http://:3128", "http://u:p@:1"),
        *("http://proxy/path", "http://proxy?query", "http://proxy/?", "http://proxy#", "http:///"),
        *("http://pro xy:3128", " http://proxy", "http://proxy ", "http://proxy\n", "http://p\tq"),
        *("http://pr%6fxy:3128", "http://[::1%25eth0]:1", "http://pröxy:3128", "http://p\\q"),
        *("http://[::1]x:1", "http://[::1", "http://[proxy]", "http://[1.2.3.4]", "http://a..b"),
        *("http://proxy:", "http://proxy:0", "http://proxy:65536", "http://proxy:http"),
        *("http://@proxy", "http://a@b@proxy", "http://a b@proxy", "http://a,b"),
    ],
)
def test_an_invalid_proxy_url_is_refused(proxy: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"webhooks_proxy: .*http://HOST:PORT"):
        load({"AGENTJOBS_WEBHOOKS_PROXY": proxy}, data_dir=str(tmp_path))


def test_insecure_registries_are_hosts(tmp_path: Path) -> None:
    hosts = "registry.internal,localhost:5000,[::1]:5000"
    environ = {"AGENTJOBS_INSECURE_REGISTRIES": hosts}
    assert load(environ, data_dir=str(tmp_path)).insecure_registries == hosts.split(",")


def test_an_empty_list_of_delays_disables_retries(tmp_path: Path) -> None:
    for text in ("", " "):
        environ = {"AGENTJOBS_WEBHOOK_RETRY_SECONDS": text}
        assert load(environ, data_dir=str(tmp_path)).webhook_retry_seconds == ()


@pytest.mark.parametrize("name", ["egress_allow", "trusted_proxies", "webhooks_allow"])
def test_an_empty_list_equals_an_unset_one(name: str, tmp_path: Path) -> None:
    unset = load({}, data_dir=str(tmp_path))
    assert load({f"AGENTJOBS_{name.upper()}": ""}, data_dir=str(tmp_path)) == unset


def test_a_plan_without_concurrent_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="concurrent_jobs"):
        load(from_file(tmp_path, '[[plans]]\nname = "none"\nconcurrent_jobs = 0\n'))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 1\nslotz = 3\n", "line 2: slotz: there is no such setting"),
        ('[[plans]]\nname = "x"\nprice = 3\n', "line 3: plans[0].price: there is no such setting"),
    ],
)
def test_a_misspelled_key_of_the_file_is_named_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        load(from_file(tmp_path, text))


def test_a_misspelled_variable_is_reported() -> None:
    of_clients = {"AGENTJOBS_URL": "x", "AGENTJOBS_API_KEY": "x", "AGENTJOBS_CONTEXT": "x"}
    environ = {"AGENTJOBS_PORTS": "1", "AGENTJOBS_PORT": "1", "PATH": "/", **of_clients}
    assert unknown_variables(environ) == ["AGENTJOBS_PORTS"]


def test_a_worker_has_at_most_six_tags(tmp_path: Path) -> None:
    environ = {"AGENTJOBS_DATA_DIR": str(tmp_path)}
    assert load(environ).worker_tags == []
    assert load({**environ, "AGENTJOBS_WORKER_TAGS": "gpu,large"}).worker_tags == ["gpu", "large"]
    for text in ("a,b,c,d,e,f,g", "GPU", "gpu,gpu", "x" * 33, "a b"):
        with pytest.raises(SettingsError, match="worker_tags"):
            load({**environ, "AGENTJOBS_WORKER_TAGS": text})


def test_loopback_is_recognized_in_every_spelling() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "10.0.0.1", "example.com"))


def test_agents_run_in_pods_if_the_sandbox_is_kubernetes(tmp_path: Path) -> None:
    text = """
sandbox = "kubernetes"
kubernetes_image = "registry.example.com:5000/agents@sha256:0123"
kubernetes_cache_claim = "agents.cache"
kubernetes_worker_labels = ["app.kubernetes.io/component=worker", "plain="]
kubernetes_worker_cidrs = ["10.0.0.0/8", "fd00::/64"]
"""
    settings = load(from_file(tmp_path, text))
    assert settings.has_sandbox
    assert settings.uses_kubernetes
    assert settings.effective_kubernetes_image == "registry.example.com:5000/agents@sha256:0123"
    defaults = load({"AGENTJOBS_DATA_DIR": str(tmp_path / "other")})
    assert not defaults.uses_kubernetes
    assert (
        defaults.effective_kubernetes_image == f"localhost/agentjobs-agent:{version('agentjobs')}"
    )


@pytest.mark.parametrize(
    ("lease_seconds", "renew_seconds", "orphan_seconds"), [(10, 3, 5.5), (30, 5, 23.5), (4, 2, 3)]
)
def test_an_agent_in_a_pod_ends_before_the_lease_of_its_dead_worker(
    lease_seconds: float, renew_seconds: float, orphan_seconds: float
) -> None:
    settings = Settings(
        data_dir="/nowhere", lease_seconds=lease_seconds, lease_renew_seconds=renew_seconds
    )
    assert settings.orphan_seconds == orphan_seconds
