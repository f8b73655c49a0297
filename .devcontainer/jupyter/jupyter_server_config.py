"""In a GitHub code space the browser has another address than JupyterLab: allow this one."""

import os

c = get_config()  # noqa: F821  # Jupyter defines it

if name := os.environ.get("CODESPACE_NAME"):
    domain = os.environ.get("GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN", "app.github.dev")
    c.ServerApp.allow_origin = f"https://{name}-8888.{domain}"
