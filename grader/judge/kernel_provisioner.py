"""Gives Jupyter's kernel manager a process that was forked before (forked_kernel.py)."""

from __future__ import annotations

from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from .forked_kernel import KernelProcess


class ForkedProvisioner(LocalProvisioner):
    """Lets a process that waits be the kernel, in place of starting one.

    Attributes:
        kernel: the process.
    """

    kernel: KernelProcess

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Let the process be a kernel. `cmd` is the command line that would start another one."""
        cwd = str(kwargs["cwd"])
        self.kernel.begin(cmd[cmd.index("-f") :], kwargs["env"], cwd)
        self.process = self.kernel  # type: ignore[assignment]  # it has what is used of a Popen
        self.pid = self.pgid = self.kernel.pid
        self.cwd = cwd
        return self.connection_info


def manager_of(kernel: KernelProcess, sockets: str) -> AsyncKernelManager:
    """A manager for a process that waits to be a kernel.

    Args:
        kernel: the process.
        sockets: a path; the kernel's sockets get names that begin with it.
    """
    manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=sockets)
    provisioner = ForkedProvisioner(
        kernel_id="notebook", kernel_spec=manager.kernel_spec, parent=manager
    )
    provisioner.kernel = kernel
    manager.provisioner = provisioner
    return manager
