"""What the setup of an environment may use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentjobs_runtime.environments.brokered_host import BrokeredHost
from agentjobs_runtime.environments.images.model import RegistryCredential


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupAccess:
    """What setup may use; `registries` are for images. Empty for a commit that is not trusted."""

    network: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    brokered: Sequence[BrokeredHost] = ()
    registries: Sequence[RegistryCredential] = field(default=(), repr=False)

    @property
    def secret_values(self) -> list[str]:
        brokered = (host.secret for host in self.brokered)
        registries = (credential.password for credential in self.registries)
        return [*self.secrets.values(), *brokered, *registries]
