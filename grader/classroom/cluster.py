"""The dask cluster that grades a class: processes of this machine, or workers on other machines.

A worker runs the tasks that its scheduler sends, and a task carries a submission and the class's
secret. So whoever can reach an unprotected scheduler can run programs as the instructor and read
both. All connections are therefore encrypted with TLS, and each side must show the class's
certificate:

- on this machine the certificate is made anew per run, and exists only in memory
- for other machines `grader cluster` writes it to `grader/work/cluster/`. Scheduler and workers get
  a copy of these files.

See https://distributed.dask.org/en/stable/tls.html.
"""

from __future__ import annotations

import contextlib
import ipaddress
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbook.common.errors import WorkbookError

from .classroom import Classroom, write

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

#: How long a scheduler may take to answer.
ANSWER_S = 20.0
_QUIET = {
    "distributed.scheduler.allowed-failures": 1,  # a task whose worker died is tried once more
    "distributed.logging": {"distributed": "critical"},
    "distributed.worker.daemon": True,
    "distributed.admin.large-graph-warning-threshold": "1GB",
    # These collect data for the dashboard, which is turned off. They took 5 % of a core.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "1s",
}


@contextlib.contextmanager
def connect(
    classroom: Classroom, *, workers: int | None = None, scheduler: str | None = None
) -> Iterator[Client]:
    """A client of a cluster that has a worker. A cluster that was started here ends with the block.

    Example::

        with cluster.connect(classroom, workers=2) as client:
            client.submit(len, "four").result()     # 4

    Args:
        classroom: its files have the certificate for other machines.
        workers: how many processes to start on this machine. Default: one per core.
        scheduler: the address of a running scheduler, such as `tls://10.0.0.5:8786`; then no
            process is started here.

    Raises:
        WorkbookError: no scheduler with a worker answers; or the address is that of another
            machine, and not encrypted.
    """
    import dask
    from distributed import Client

    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(_QUIET))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if scheduler is None:
            address, security = stack.enter_context(_on_this_machine(workers))
        else:
            address, security = scheduler, _security_for(classroom, scheduler)
        try:
            client = stack.enter_context(Client(address, timeout=ANSWER_S, security=security))
            client.wait_for_workers(1, timeout=60)
        except (OSError, TimeoutError):
            raise WorkbookError(
                "There is no dask scheduler with a worker.",
                where=scheduler or "this machine",
                todo="`grader cluster` says how to start them. Scheduler, workers and this machine "
                "must have the same certificate.",
            ) from None
        if scheduler is None:
            client.register_plugin(_ignore_interrupt())
        yield client


def make_certificate(classroom: Classroom) -> Path:
    """Write the certificate and the key for clusters of several machines, if they are not there.

    Returns:
        The folder with `certificate.pem` and `key.pem`. Whoever has the key can run programs on the
        machines of the cluster. The certificate is valid for a year.
    """
    from distributed.security import Security

    folder = classroom.home / "cluster"
    certificate, key = _files(folder)
    if not (certificate.is_file() and key.is_file()):
        made = Security.temporary()
        write(key, str(made.tls_client_key).encode(), mode=0o600)
        write(certificate, str(made.tls_client_cert).encode())
    return folder


def instructions(folder: Path) -> str:
    """The commands that start a scheduler and a worker with the certificate in a folder."""
    tls = "--tls-ca-file certificate.pem --tls-cert certificate.pem --tls-key key.pem"
    return (
        f"Certificate and key: {folder}\n"
        "Whoever has the key can run programs on the cluster's machines.\n\n"
        "Copy the folder and this checkout to each machine, `make setup` there. In the folder:\n"
        f"  dask scheduler --protocol tls --no-dashboard {tls}\n"
        f"  dask worker tls://SCHEDULER:8786 --nthreads 1 --nworkers 4 --no-dashboard {tls}\n"
        "Then here:\n"
        "  grader autograde --scheduler tls://SCHEDULER:8786"
    )


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "certificate.pem", folder / "key.pem"


@contextlib.contextmanager
def _on_this_machine(workers: int | None) -> Iterator[tuple[Any, Security]]:
    """A cluster of processes of this machine, with a certificate of its own."""
    from distributed import LocalCluster
    from distributed.security import Security

    security = Security.temporary()
    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,  # the sandbox limits what a submission uses
        dashboard_address=None,
        host="127.0.0.1",
        protocol="tls://",
        security=security,
        silence_logs=50,
    ) as cluster:
        yield cluster, security


def _security_for(classroom: Classroom, scheduler: str) -> Security | None:
    """The certificate for a scheduler's address; None for an unencrypted one on this machine."""
    from distributed.security import Security

    protocol, _, place = scheduler.rpartition("://")
    if protocol != "tls":
        if _is_loopback(place.rpartition(":")[0]):  # such as the end of an ssh tunnel
            return None
        raise WorkbookError(
            "The connection to this scheduler is not encrypted. It would carry submissions and the "
            "class's secret, and anybody could send the workers programs.",
            where=scheduler,
            todo="Start scheduler and workers with TLS, as `grader cluster` says, and give the "
            f"address as tls://{place}.",
        )
    certificate, key = _files(classroom.home / "cluster")
    if not (certificate.is_file() and key.is_file()):
        raise WorkbookError(
            "There is no certificate for a cluster.",
            where=str(certificate.parent),
            todo="Make one with `grader cluster`, and copy the folder to the other machines.",
        )
    return Security(
        require_encryption=True,
        tls_ca_file=str(certificate),
        tls_client_cert=str(certificate),
        tls_client_key=str(key),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _ignore_interrupt() -> Any:
    """A plugin for workers: Ctrl-C ends the main process, which ends them without a traceback."""
    from distributed import WorkerPlugin

    class IgnoreInterrupt(WorkerPlugin):  # type: ignore[misc]
        def setup(self, worker: Any) -> None:
            import signal

            signal.signal(signal.SIGINT, lambda *_: None)

    return IgnoreInterrupt()
