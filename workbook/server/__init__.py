"""The server: assemble and start one, reach one, deploy models into it, explain its failures."""

from .all_models import ensure
from .connection import Server
from .deploy import Deployment, deploy, undeploy
from .find_server import connect
from .triton import Triton

__all__ = ["Deployment", "Server", "Triton", "connect", "deploy", "ensure", "undeploy"]
