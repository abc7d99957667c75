"""What decides whether a snapshot fits."""

import pytest

from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.environments.key import CacheFile, EnvironmentRequest

BASE = EnvironmentRequest(
    definition=EnvironmentDefinition(image="img:1", setup="make", variables={"A": "1", "B": "2"}),
    files=(CacheFile("uv.lock", "1" * 40),),
)


@pytest.mark.parametrize(
    ("definition", "files", "generation"),
    [
        (EnvironmentDefinition(image="img:2", setup="make", variables={"A": "1", "B": "2"}), 1, 0),
        (EnvironmentDefinition(image="img:1", setup="other", variables={"A": "1", "B": "2"}), 1, 0),
        (EnvironmentDefinition(image="img:1", setup="make", variables={"A": "1", "B": "3"}), 1, 0),
        (BASE.definition, 2, 0),
        (BASE.definition, 1, 1),
    ],
)
def test_everything_that_setup_depends_on_changes_the_key(
    definition: EnvironmentDefinition, files: int, generation: int
) -> None:
    other = EnvironmentRequest(
        definition=definition,
        files=(CacheFile("uv.lock", str(files) * 40),),
        generation=generation,
    )
    assert other.request_key != BASE.request_key


def test_order_of_variables_and_what_runs_later_do_not_change_the_key() -> None:
    definition = EnvironmentDefinition(
        image="img:1", setup="make", start="run", variables={"B": "2", "A": "1"}
    )
    other = EnvironmentRequest(definition=definition, files=BASE.files)
    assert other.request_key == BASE.request_key


def test_another_image_behind_a_tag_changes_the_key_but_not_the_request() -> None:
    assert BASE.key({"img:1": "sha256:a"}) != BASE.key({"img:1": "sha256:b"})
    assert BASE.has_tags


def test_images_of_services_need_a_build_too() -> None:
    service = ServiceDefinition(name="db", image="img:1")
    request = EnvironmentRequest(definition=EnvironmentDefinition(services=(service, service)))
    assert request.images == ("img:1",)
    assert request.needs_build
    nothing = EnvironmentRequest(definition=EnvironmentDefinition(start="run"))
    assert not nothing.needs_build
