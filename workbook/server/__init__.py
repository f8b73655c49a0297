"""The server: assemble and start one, reach one, deploy models into it, explain its failures."""

from .connect import connect
from .connection import Server
from .deploy import Deployment, deploy, undeploy, versions
from .fleet import ensure
from .triton import Triton

__all__ = ["Deployment", "Server", "Triton", "connect", "deploy", "ensure", "undeploy", "versions"]
