"""The server's room: find or assemble it, start it, reach it, deploy into it, explain failures."""

from .connect import connect
from .connection import Server
from .deploy import Deployment, deploy, undeploy, versions
from .triton import Triton

__all__ = ["Deployment", "Server", "Triton", "connect", "deploy", "undeploy", "versions"]
