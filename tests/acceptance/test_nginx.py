"""The service behind nginx, with the configuration in packaging/proxy."""

from pathlib import Path

import pytest

from tests.support.proxied_deployment import check_everything, deployment

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest.mark.parametrize("path", ["", "/agents"])
def test_everything_works_behind_nginx(path: str, tmp_path: Path, database_url: str) -> None:
    with deployment("nginx", path, tmp_path, database_url) as deployed:
        check_everything(deployed)
