"""Install the course's packages with uv, set up as pip is set up on this machine.

    .venv/bin/python workbook/lab/install.py          # everything but vLLM
    .venv/bin/python workbook/lab/install.py vllm     # vLLM's CPU build, beside it
    .venv/bin/python workbook/lab/install.py hub      # the hub of a class: JupyterHub, its proxy
    .venv/bin/python workbook/lab/install.py lock     # write the lists anew from requirements*.in

pip installs uv from requirements-uv.txt, and uv installs the rest. uv does not read pip's settings.
So this program reads them and passes them on to uv as environment variables: if pip is set up to
use a mirror, a folder of wheels, a proxy or a certificate, uv uses it too. Every package except
PyTorch must have the hash that is in requirements.txt.

Only the standard library is imported: this runs in a virtual environment that is still empty.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What npm installs for the hub, with a list of hashes, and where it installs it.
_PROXY = ROOT / "docker" / "hub" / "one_machine" / "proxy"
_PROXY_TARGET = Path(sys.prefix) / "share" / "workbook-hub"

#: pip's setting → uv's variable, and the separator between several values in it.
_SETTINGS = {
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "proxy": ("ALL_PROXY", " "),
}
#: pip's own order: a later section wins.
_SECTIONS = ("global", "install", ":env:")
#: With these installed, vLLM's CPU build cannot be imported. It does not need them.
_NOT_WITH_VLLM = ("torchvision", "torchaudio", "torchcodec")

#: The message about PyTorch's build, by the backend that `_torch_backend` chose.
_SENTENCES = {
    "auto": "PyTorch: the CUDA build that fits this machine's NVIDIA driver.",
    "cpu": "PyTorch: the build for the CPU, since this machine has no NVIDIA GPU.",
    "": "PyTorch: from the ordinary package index, since PyTorch's own cannot be reached. That may "
    "be the CUDA build, 4 GB larger; it runs on the CPU as well.",
}
#: The lists that `make lock` writes, each from its `.in` file, and what is special about it.
_LISTS: Mapping[str, tuple[str, ...]] = {
    "requirements-uv": (),
    "requirements": (),
    "requirements-vllm": ("--no-deps",),
    "requirements-hub": ("--no-deps",),
    "requirements-class": ("--no-deps",),
}
#: One list for every version of Python that the course runs on, with hashes and without addresses.
_LOCK = (
    *("--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate"),
    *("--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make lock"),
)
#: `environments` in pyproject.toml, as uv writes it behind each package.
_PLATFORM = (
    " ; python_full_version < '3.13' and platform_machine == 'x86_64' and "
    "platform_python_implementation == 'CPython' and sys_platform == 'linux'"
)


class Failed(Exception):
    """An installation that did not work; the program's own message is on the terminal."""


def main(task: str) -> int:
    """Do one task: `packages`, `vllm`, `hub` or `lock`; returns the exit status."""
    try:
        _install_uv()
        # A variable that the caller has set wins over pip's settings.
        TASKS[task]({**uv_settings(_pip_settings()), **os.environ})
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def uv_settings(pip: str) -> dict[str, str]:
    """pip's settings as environment variables for uv.

    Args:
        pip: what `pip config list` prints: lines such as `global.find-links='/wheels /more'`.

    Returns:
        Variables of the environment, for example `{"UV_FIND_LINKS": "/wheels,/more", …}`.
    """
    # pip trusts the system's certificates and takes the best match of all indexes; uv must be told.
    found = {"UV_SYSTEM_CERTS": "true", "UV_INDEX_STRATEGY": "unsafe-best-match"}
    given: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in pip.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section in given and name in _SETTINGS:
            given[section][name] = str(ast.literal_eval(value))
    for section in _SECTIONS:
        for name, value in given[section].items():
            variable, between = _SETTINGS[name]
            if value.strip():
                found[variable] = between.join(value.split())
    return found


def has_nvidia_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU with its driver."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    smi = shutil.which("nvidia-smi")  # in WSL the driver is Windows's
    return (
        smi is not None and subprocess.run([smi], capture_output=True, check=False).returncode == 0
    )


def _pip_settings() -> str:
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    return listed.stdout


def _install_uv() -> None:
    wanted = ROOT / "requirements-uv.txt"
    try:
        if f"uv=={importlib.metadata.version('uv')} " in wanted.read_text(encoding="utf-8"):
            return
    except importlib.metadata.PackageNotFoundError:
        pass
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*command, "--require-hashes", "-r", wanted], check=False).returncode != 0:
        raise Failed(
            "pip could not install uv, which installs the course.\n"
            "  to do: read pip's message above; without a network, or behind a proxy, tell pip "
            "where packages are (PIP_INDEX_URL, PIP_FIND_LINKS, PIP_PROXY), and run make again."
        )


def _install_packages(environment: Mapping[str, str]) -> None:
    backend = _torch_backend(environment)
    print(_SENTENCES[backend], flush=True)
    lists = ["-r", "requirements.txt", "-r", "requirements-torch.txt"]
    chosen = ["--torch-backend", backend] if backend else []
    if _uv(["install", *lists, *chosen], environment) != 0:
        raise Failed(
            "The packages could not be installed. What was downloaded is kept, and the same "
            "command continues from it.\n"
            "  to do: read uv's message above, and run make again."
        )
    if (
        _uv(["install", "--quiet", "--no-deps", "--no-build-isolation", "-e", "."], environment)
        != 0
    ):
        raise Failed("The course's own packages could not be installed; uv's message is above.")


def _torch_backend(environment: Mapping[str, str]) -> str:
    """Which build of PyTorch to take: `auto`, `cpu`, or "" for the ordinary index."""
    backend = "auto" if has_nvidia_gpu() else "cpu"
    # --reinstall: uv does not ask an index for what is installed, so a second `make setup` would
    # take an index for reachable that is not.
    look = ["install", "--quiet", "--dry-run", "--no-deps", "--reinstall"]
    look += ["-r", "requirements-torch.txt"]
    # No retries: this only finds out whether PyTorch's index can be reached.
    quick = {**environment, "UV_HTTP_RETRIES": "0", "UV_HTTP_CONNECT_TIMEOUT": "10"}
    found = _uv([*look, "--torch-backend", backend], quick, silent=True)
    return backend if found == 0 else ""


def _install_vllm(environment: Mapping[str, str]) -> None:
    if _uv(["install", "--no-deps", "-r", "requirements-vllm.txt"], environment) != 0:
        raise Failed("vLLM could not be installed; uv's message is above. Run make vllm again.")
    _uv(["uninstall", "--quiet", *_NOT_WITH_VLLM], environment, silent=True)
    if subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import vllm"], check=False
    ).returncode:
        raise Failed(
            "vLLM is installed but cannot be imported; its last lines are above.\n"
            "  to do: make clean, then make vllm: another package may be in its way."
        )


def _install_hub(environment: Mapping[str, str]) -> None:
    lists = ["-r", "requirements-hub.txt", "-r", "requirements-class.txt"]
    if _uv(["install", "--no-deps", *lists], environment) != 0:
        raise Failed(
            "JupyterHub could not be installed; uv's message is above. Run make hub again."
        )
    _PROXY_TARGET.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PROXY / name, _PROXY_TARGET)
    npm = [str(Path(sys.executable).with_name("npm")), "ci", "--prefix", str(_PROXY_TARGET)]
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    if subprocess.run([*npm, *quiet], check=False).returncode != 0:
        raise Failed(
            "npm could not install the hub's proxy; its message is above.\n"
            "  to do: behind a proxy or with a mirror, tell npm (~/.npmrc), and run make hub again."
        )


def _lock(environment: Mapping[str, str]) -> None:
    # Only the ordinary index has every file of a version, and so every hash.
    environment = {k: v for k, v in environment.items() if k not in ("UV_INDEX", "UV_FIND_LINKS")}
    for name, options in _LISTS.items():
        target = ROOT / f"{name}.txt"
        words = ["compile", f"{name}.in", "-o", target.name, "--upgrade", "--quiet", *options]
        if _uv([*words, *_LOCK], environment) != 0:
            raise Failed(f"{target.name} could not be written anew; uv's message is above.")
        # The whole list is for one platform, which uv repeats after every package.
        text = target.read_text(encoding="utf-8")
        target.write_text(text.replace(_PLATFORM, ""), encoding="utf-8")
        print(f"{target.name} is written.")


TASKS: Mapping[str, Callable[[Mapping[str, str]], None]] = {
    "packages": _install_packages,
    "vllm": _install_vllm,
    "hub": _install_hub,
    "lock": _lock,
}


def _uv(words: list[str], environment: Mapping[str, str], *, silent: bool = False) -> int:
    """Run `uv pip WORDS` for this Python, in the checkout; returns its exit status."""
    program = Path(sys.executable).with_name("uv")
    command = [str(program), "pip", *words, "--python", sys.executable]
    output = subprocess.DEVNULL if silent else None
    return subprocess.run(
        command, cwd=ROOT, env=dict(environment), stdout=output, stderr=output, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["packages"]))
