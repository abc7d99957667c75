"""Who runs setup with network and secrets, and where a secret of setup may end up: nowhere."""

import base64
from collections.abc import Iterator

import pytest

from tests.support.environments import EnvironmentService, environment_service
from tests.support.package_index import PRIVATE_ADDRESSES, PackageIndex, package_index

AGENTS = '''
[[agents]]
id = "looker"
name = "Looker"
command = ["sh", "-c", """
echo "library: $(cat deps/library)"
echo "variables: $(env | grep -c TOKEN)"
echo changed >> edited.txt
"""]

[[agents]]
id = "sneaky"
name = "Sneaky"
command = ["sh", "-c", "cp stolen.sh setup.sh; echo changed > requirements.txt"]
'''
TOKEN = "token-hQ7vTz2LpX9aRw4KdY6mBn3s"
CONFIGURATION = '[environment]\nsetup = "sh setup.sh"\n'
SETUP = """
echo "the token is $TOKEN."
curl -sSm 20 -d "NAME $TOKEN" URL/ || echo unreachable
mkdir -p deps
echo "of NAME" > deps/library
"""
LEFT_SECRETS = {
    "raw": ('echo "key=$TOKEN;" > ~/.npmrc', ".npmrc"),
    "encoded": (
        "mkdir deps; printf 'user:%s' \"$TOKEN\" | base64 -w 0 > deps/auth",
        "deps/auth",
    ),
    "named": ("mkdir -p ~/.cache; touch ~/.cache/$TOKEN", f".cache/{TOKEN}"),
    "linked": ("mkdir deps; ln -s /nowhere/$TOKEN deps/link", "deps/link"),
    "shortened": ('printf "${TOKEN%???}" > ~/y', "y"),
    "binary": ("head -c 100000 /dev/zero > ~/x; printf $TOKEN >> ~/x", "x"),
    "unreadable": ("mkdir ~/d; echo $TOKEN > ~/d/x; chmod 000 ~/d/x ~/d", "d/x"),
}


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    with package_index() as index:
        yield index


@pytest.fixture(scope="module")
def environments(
    index: PackageIndex, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnvironmentService]:
    with environment_service(
        tmp_path_factory.mktemp("trust"),
        AGENTS,
        AGENTJOBS_EGRESS_ALLOW=PRIVATE_ADDRESSES,
        AGENTJOBS_SETUP_NETWORK=index.host,
    ) as environments:
        yield environments


def connect(environments: EnvironmentService, repo: str, index: PackageIndex) -> None:
    """With a setup that says what it has, and a different one on two other branches."""
    index.bodies.clear()

    def setup(name: str) -> str:
        return SETUP.replace("NAME", name).replace("URL", index.url)

    environments.connect(
        repo,
        {
            ".agentjobs.toml": CONFIGURATION,
            ".gitignore": "deps/\n",
            "requirements.txt": "one\n",
            "setup.sh": setup("main"),
            "stolen.sh": setup("agent"),
        },
        {
            name: {"setup.sh": setup(name), "requirements.txt": f"{name}\n"}
            for name in ("feature", "release")
        },
    )
    environments.set_secret("TOKEN", TOKEN, repo)


def test_setup_of_the_default_branch_has_network_and_secrets_that_agents_never_see(
    environments: EnvironmentService, index: PackageIndex
) -> None:
    connect(environments, "acme/main", index)
    _, log = environments.complete("acme/main", "looker")
    assert index.bodies == [f"main {TOKEN}"]
    assert "library: of main\nvariables: 0" in log
    (build,) = environments.builds("acme/main")
    build_log = environments.build_log(build)
    assert "the token is [redacted]." in build_log
    assert TOKEN not in log + build_log + environments.service.log()


def test_another_branch_and_a_follow_up_start_from_the_snapshot_of_the_default_branch(
    environments: EnvironmentService, index: PackageIndex
) -> None:
    connect(environments, "acme/other", index)
    environments.service.admin("repos", "lift", "acme/other", "setup.sh")
    job, _ = environments.complete("acme/other", "sneaky")
    build_id = job["environment"]["build_id"]
    feature, feature_log = environments.complete("acme/other", "looker", "feature")
    follow_up, follow_up_log = environments.follow_up(job, "looker")
    assert follow_up["status"] == "completed", (follow_up, follow_up_log)
    for later, log in ((feature, feature_log), (follow_up, follow_up_log)):
        assert later["environment"]["build_id"] == build_id
        assert "library: of main\nvariables: 0" in log
        assert "unreachable" not in log
    assert index.bodies == [f"main {TOKEN}"]
    assert len(environments.builds("acme/other")) == 1


def test_an_agent_cannot_propose_what_setup_would_run_with_secrets(
    environments: EnvironmentService, index: PackageIndex
) -> None:
    connect(environments, "acme/guarded", index)
    job, _ = environments.run("acme/guarded", "sneaky")
    assert job["error"]["code"] == "protected_path"
    assert "setup.sh" in job["error"]["message"]


def test_without_a_snapshot_another_branch_runs_setup_offline_for_itself_alone(
    environments: EnvironmentService, index: PackageIndex
) -> None:
    connect(environments, "acme/alone", index)
    for _ in range(2):
        job, log = environments.complete("acme/alone", "looker", "feature")
        assert job["environment"]["build_id"] is None
        assert "the token is .\n" in log
        assert "unreachable" in log
        assert "library: of feature\nvariables: 0" in log
        assert environments.changed_files(log) == ["edited.txt"]
    assert (index.bodies, environments.builds("acme/alone")) == ([], [])


def test_a_trusted_branch_has_setup_with_network_and_secrets(
    environments: EnvironmentService, index: PackageIndex
) -> None:
    connect(environments, "acme/trusted", index)
    environments.trust("acme/trusted", "release")
    _, log = environments.complete("acme/trusted", "looker", "release")
    assert "library: of release" in log
    # Then the worker prepares the default branch too.
    assert index.bodies[0] == f"release {TOKEN}"


def test_a_changed_secret_and_a_rebuild_retire_the_snapshot(
    environments: EnvironmentService, index: PackageIndex
) -> None:
    connect(environments, "acme/retired", index)
    first, _ = environments.complete("acme/retired", "looker")
    environments.set_secret("TOKEN", f"{TOKEN}-changed", "acme/retired")
    second, _ = environments.complete("acme/retired", "looker")
    environments.rebuild("acme/retired")
    third, _ = environments.complete("acme/retired", "looker")
    jobs = (first, second, third)
    assert len({job["environment"]["build_id"] for job in jobs}) == len(jobs)
    assert index.bodies == [f"main {TOKEN}", *[f"main {TOKEN}-changed"] * 2]


def test_a_secret_that_setup_left_in_any_form_fails_the_environment(
    environments: EnvironmentService,
) -> None:
    branches = {
        name: {".agentjobs.toml": f"[environment]\nsetup = '''{script}'''\n"}
        for name, (script, _) in LEFT_SECRETS.items()
    }
    environments.connect("acme/left", {".gitignore": "deps/\n"}, branches)
    environments.set_secret("TOKEN", TOKEN, "acme/left")
    environments.trust("acme/left", *branches)
    for name, (_, file) in LEFT_SECRETS.items():
        message = environments.environment_error("acme/left", "looker", name)
        shown = file.replace(TOKEN, "[redacted]")
        assert f"The setup left a secret in the file {shown}, which agents" in message, name
        assert TOKEN not in message
    assert list(environments.service.data_dir.rglob(".npmrc")) == []
    states = {build["state"] for build in environments.builds("acme/left")}
    assert states == {"failed"}
    assert base64.b64encode(TOKEN.encode()).decode() not in environments.service.log()
