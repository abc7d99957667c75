"""Sign-in with an OpenID provider."""

from agentjobs.web.openid.sign_in import Finished, OpenId, Started

__all__ = ["Finished", "OpenId", "Started"]
