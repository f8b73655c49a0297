"""Docker or Podman: build images and run containers, with the settings that this machine needs.

    engine = Engine(available(), folder)
    engine.build(context, "student", "localhost/triton-workbook")
    with engine.container("localhost/triton-workbook") as name:
        print(engine.inside(name, "id", "-u"))

This is what differs from a reader's `docker build` and `docker run`:

- pip's settings of this machine (a mirror, a folder of wheels, a certificate) are given to the
  build as a secret. Podman also mounts the folders that they name.
- If the base image cannot be pulled, Podman gets one that debootstrap makes, which is Debian 12
  too.
- Podman's own rules allow namespaces, Docker's do not. So Podman gets a copy of its rules without
  namespaces, except in tests of other rules.
- Where this machine has no cgroups, Podman gets an empty hierarchy of them and sets no limits.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = "docker/laptop/Dockerfile"
BASE = "localhost/triton-workbook-base"
#: What Docker's rules allow only to containers with CAP_SYS_ADMIN.
FORBIDDEN = {
    *("mount", "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount"),
    *("fspick", "umount", "umount2", "unshare", "setns", "pivot_root", "sethostname", "clone"),
    "clone3",
}
_NEW_NAMESPACES = 0x7E020000  # the flags of clone that make one


class Failed(Exception):
    """Something was not as expected; the text says what."""


class Engine:
    """Docker or Podman, with the options that this machine needs.

    Attributes:
        name: `docker` or `podman`.
        folder: for files that the engine is given.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.run_options: list[str] = []
        self.default_rules: list[str] = []
        if name == "podman":
            self.run_options = ["--cgroups=disabled", "--ulimit", "nofile=20000:20000"]
            self.run_options += ["--ulimit", "nproc=32768:32768"]
            self.default_rules = ["--security-opt", f"seccomp={_dockers_rules(folder)}"]

    def __call__(self, *words: str | Path, check: bool = True) -> str:
        """What a command of the engine prints on stdout.

        Raises:
            Failed: it ended with another exit status than 0, and `check` is set.
        """
        done = subprocess.run(
            [self.name, *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            last = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
            raise Failed(f"{self.name} {' '.join(map(str, words))}\n{last}")
        return done.stdout

    def build(self, context: Path, target: str, tag: str) -> float:
        """Build a target from a folder; returns the seconds it took. The output is shown."""
        words: list[str | Path] = [
            self.name,
            "build",
            "--file",
            context / DOCKERFILE,
            "--target",
            target,
        ]
        secret = _pip_settings(self.folder)
        words += ["--tag", tag, "--secret", f"id=pip,src={secret.file}"]
        if self.name == "podman":
            words += ["--isolation", "chroot", "--layers"]
            words += [word for mount in secret.mounts for word in ("--volume", mount)]
            if base := base_image(self):
                words += ["--build-arg", f"BASE={base}"]
        began = time.monotonic()
        if subprocess.run([*words, context], check=False).returncode != 0:
            raise Failed(f"The target {target} could not be built; the engine's words are above.")
        return time.monotonic() - began

    def layers(self, image: str) -> list[str]:
        """The digests of an image's layers, the lowest first."""
        (found,) = json.loads(self("image", "inspect", image))
        return list(found["RootFS"]["Layers"])

    def size(self, image: str) -> int:
        """The bytes of an image's files, without compression."""
        (found,) = json.loads(self("image", "inspect", image))
        return int(found["Size"])

    @contextlib.contextmanager
    def container(self, image: str, *options: str, command: tuple[str, ...] = ()) -> Iterator[str]:
        """Start a container with the engine's default rules, unless the options name others."""
        rules = [] if "--security-opt" in options else self.default_rules
        words = ["run", "--detach", *self.run_options, *rules, *options, image, *command]
        name = self(*words).strip()
        try:
            yield name
        finally:
            self("rm", "--force", name, check=False)

    def log(self, container: str) -> str:
        """What a container has printed, on both of its outputs."""
        words = [self.name, "logs", container]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def inside(self, container: str, *words: str, check: bool = True) -> str:
        """What a command in a running container prints."""
        return self("exec", container, *words, check=check)


def available() -> str:
    """The engine that runs here; Docker before Podman."""
    for name in ("docker", "podman"):
        if (
            shutil.which(name)
            and subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0
        ):
            return name
    raise Failed("No container engine runs here. Debian, Ubuntu: sudo apt install podman.")


@dataclasses.dataclass(frozen=True)
class Settings:
    """pip's settings as a file, and the folders that must be mounted for it."""

    file: Path
    mounts: tuple[str, ...]


def base_image(engine: Engine) -> str:
    """Make a base image if the Dockerfile's cannot be pulled; "" if it can."""
    wanted = re.search(r"^ARG BASE=(\S+)", (ROOT / DOCKERFILE).read_text("utf-8"), re.MULTILINE)
    assert wanted is not None
    if engine("images", "--quiet", BASE).strip():
        return BASE
    with contextlib.suppress(Failed):
        engine("pull", "--quiet", wanted[1])
        return ""
    print("The base image cannot be pulled here; debootstrap makes one.", flush=True)
    sources = Path("/etc/apt/sources.list.d/debian.sources")
    mirror = re.search(r"^URIs: (\S+)", sources.read_text("utf-8"), re.MULTILINE)
    where = [mirror[1]] if mirror else []
    made = engine.folder / "base"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "bookworm", made, *where],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (made / "etc/apt/sources.list").unlink(missing_ok=True)
    shutil.copy(sources, made / "etc/apt/sources.list.d/")
    for settings in Path("/etc/apt/apt.conf.d").glob("99*"):
        shutil.copy(settings, made / "etc/apt/apt.conf.d/")
    for clutter in (
        "var/cache/apt",
        "var/lib/apt/lists",
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
    ):
        shutil.rmtree(made / clutter)
    (made / "var/lib/apt/lists").mkdir()
    archive = engine.folder / "base.tar"
    subprocess.run(["tar", "-C", made, "-cf", archive, "."], check=True)
    engine("import", archive, BASE)
    return BASE


def _pip_settings(folder: Path) -> Settings:
    """pip's settings of this machine as a file for the build, and what to mount for it."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    values: dict[str, str] = {}
    for line in listed.splitlines():  # later sections win: a variable before a file
        key, _, value = line.partition("=")
        values[key.rpartition(".")[2]] = str(ast.literal_eval(value))
    # A variable comes first in the list, but it wins.
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        if key.startswith(":env:"):
            values[key.rpartition(".")[2]] = str(ast.literal_eval(value))
    values.pop("constraint", None)  # a file of this machine; the course's lists pin each package
    mounts = []
    if certificate := values.get("cert"):
        mounts.append(f"{certificate}:/run/ca.crt:ro")
        values["cert"] = "/run/ca.crt"
    for word in " ".join(values.values()).split():
        place = Path(re.sub(r"^file://[^/]*", "", word))
        if place.is_absolute() and place.is_dir():
            # The pages of a package index link to files that may lie beside them.
            place = place.parent if word.startswith("file:") else place
            mounts.append(f"{place}:{place}:ro")
    file = folder / "pip.conf"
    file.write_text(
        "\n".join(["[global]", *(f"{k} = {v}" for k, v in values.items()), ""]), "utf-8"
    )
    file.chmod(0o600)
    return Settings(file, tuple(dict.fromkeys(mounts)))


def _dockers_rules(folder: Path) -> Path:
    """Write Podman's rules for system calls, without the calls that Docker forbids, to a file."""
    rules = json.loads(Path("/usr/share/containers/seccomp.json").read_text("utf-8"))
    for rule in rules["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in FORBIDDEN]
    rules["syscalls"] = [rule for rule in rules["syscalls"] if rule["names"]]
    plain = {"index": 0, "value": _NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    rules["syscalls"] += [
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [plain]},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
    ]
    file = folder / "dockers_rules.json"
    file.write_text(json.dumps(rules), "utf-8")
    return file


def has_cgroups() -> bool:
    """Whether Podman's runtime can use this machine's cgroups: those of version 2."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def restart_with_cgroups() -> None:
    """Start this program again in mounts of its own, with an empty hierarchy of cgroups."""
    mount = 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", mount, "--", sys.executable, *sys.argv]
    os.execvpe(words[0], words, {**os.environ, "WORKBOOK_TRYING": "1"})
