"""The operator's certificates, as commands and services prepare them for git and agents."""

from pathlib import Path

import pytest
import trustme

from agentjobs.app.outbound_setup import prepare_certificates
from agentjobs_runtime.settings import SettingsError, load


def test_a_machine_without_data_gets_a_bundle_with_the_operators_certificates(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    environ = {"AGENTJOBS_DATA_DIR": str(tmp_path / "new" / "data")}
    assert prepare_certificates(load(environ)) is None
    environ["AGENTJOBS_CA_FILE"] = str(tmp_path / "ca.pem")
    bundle = prepare_certificates(load(environ))
    assert bundle == tmp_path / "new" / "data" / "certificates.pem"
    assert authority.cert_pem.bytes() in bundle.read_bytes()


def test_a_file_without_certificates_is_a_setting_that_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    environ = {"AGENTJOBS_DATA_DIR": str(tmp_path), "AGENTJOBS_CA_FILE": str(tmp_path / "ca.pem")}
    with pytest.raises(SettingsError, match="contains no certificate in PEM format"):
        prepare_certificates(load(environ))
