"""The files for people who come from outside: schemas of GitHub and of development containers."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from traitlets.config.loader import PyFileConfigLoader

from tests.docker import laptop_files
from tests.wheels import unpack
from workbook.common import paths
from workbook.server.connection import DEFAULT_GRPC, DEFAULT_HTTP, DEFAULT_METRICS

ROOT = paths.root()
GITHUB = ROOT / ".github"
#: A file of the checkout → its schema in the wheel of check-jsonschema.
SCHEMAS = {
    ".github/workflows/ci.yml": "github-workflows",
    ".github/ISSUE_TEMPLATE/config.yml": "github-issue-config",
    ".github/ISSUE_TEMPLATE/problem.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/wrong_mark.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/text.yml": "github-issue-forms",
    "CITATION.cff": "citation-file-format",
}
DEVCONTAINER: dict[str, Any] = json.loads(
    (ROOT / ".devcontainer/devcontainer.json").read_text("utf-8")
)


def content(name: str) -> Any:
    """A YAML file as JSON has it: `on` is a text, and a date too."""
    text = (ROOT / name).read_text("utf-8")
    return yaml.load(text, Loader=yaml.BaseLoader if name.endswith(".cff") else Texts)


class Texts(yaml.SafeLoader):
    """YAML 1.2's booleans: true and false only, so that `on` stays a text."""


Texts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag != "tag:yaml.org,2002:bool"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Texts.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|false)$"), list("tf"))


@pytest.mark.server
def test_files_for_github_follow_their_schemas(tmp_path: Path) -> None:
    wheel = unpack(
        "check-jsonschema==0.39.0",
        ("14ce5c94871c551268ea948ffe21e9f1464dc48fb20bf9a4c13deeaaf756cf9b",),
        tmp_path,
    )
    for name, schema in SCHEMAS.items():
        file = wheel / f"check_jsonschema/builtin_schemas/vendor/{schema}.json"
        rules = json.loads(file.read_text("utf-8"))
        validator = jsonschema.validators.validator_for(rules)(rules)
        faults = [
            f"{name}: {error.json_path}: {error.message}"
            for error in validator.iter_errors(content(name))
        ]
        assert not faults
        assert list(validator.iter_errors({"nothing": 1}))  # it does look


def test_every_form_and_workflow_is_checked() -> None:
    found = {str(path.relative_to(ROOT)) for path in GITHUB.rglob("*.yml")}
    assert found == {name for name in SCHEMAS if name.startswith(".github/")}


def test_hosted_ci_runs_what_ci_runs_and_publishes_the_site() -> None:
    jobs = content(".github/workflows/ci.yml")["jobs"]
    commands = [step.get("run", "") for step in jobs["tests"]["steps"]]
    assert ".ci/run" in commands
    assert commands.index(".ci/run") < commands.index("make site")
    published = [
        step["with"]["path"] for step in jobs["tests"]["steps"] if "pages" in step.get("uses", "")
    ]
    assert published == [".workbook/site"]
    assert set(jobs["site"]["needs"]) == {"check", "tests"}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "requires-python"
    ]
    for job in ("check", "tests"):
        (python,) = [
            s["with"]["python-version"] for s in jobs[job]["steps"] if "python" in s.get("uses", "")
        ]
        assert python in ("3.11", "3.12")
        assert wanted == ">=3.11,<3.13"


def test_hooks_run_the_parts_of_make_check() -> None:
    (repository,) = content(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for hook in repository["hooks"]:
        program, *words = hook["entry"].split()
        assert program.replace(".venv/bin", "$(BIN)") in makefile
        for word in words:
            assert not word.startswith("tests/") or (ROOT / word).exists()


# -- the development container ---------------------------------------------------------------------


def test_the_development_container_follows_the_schema() -> None:
    rules = json.loads((Path(__file__).parent / "devcontainer.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(rules)(rules)
    assert not [error.message for error in validator.iter_errors(DEVCONTAINER)]
    assert list(validator.iter_errors({**DEVCONTAINER, "forwardPorts": "8888"}))
    assert list(validator.iter_errors({**DEVCONTAINER, "forwardedPorts": []}))  # unknown name


def test_it_is_built_from_the_laptop_image() -> None:
    build, folder = DEVCONTAINER["build"], ROOT / ".devcontainer"
    assert (folder / build["dockerfile"]).resolve() == laptop_files.HOME / "Dockerfile"
    assert (folder / build["context"]).resolve() == ROOT
    stages = [words for name, words in laptop_files.instructions() if name == "FROM"]
    assert any(words.endswith(f" AS {build['target']}") for words in stages)
    users = [words for name, words in laptop_files.instructions() if name == "RUN"]
    assert any(
        f"--uid 1000 --shell /bin/bash {DEVCONTAINER['remoteUser']}" in words for words in users
    )
    assert laptop_files.value("USER") == "1000"
    (mount,) = DEVCONTAINER["mounts"]
    assert f"target={laptop_files.value('VOLUME')}," in mount
    # A text, not a table of commands: of these, VS Code shows no output until they end.
    # Attached a second time, it shows the address of the JupyterLab that runs.
    running, _, start = DEVCONTAINER["postAttachCommand"].partition(" || ")
    assert running.startswith("curl -sfo /dev/null 127.0.0.1:8888/api && jupyter server list ")
    assert start.split() == laptop_files.command()
    python = DEVCONTAINER["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    variables = [words for name, words in laptop_files.instructions() if name == "ENV"]
    assert any(f"PATH={python.rpartition('/')[0]}:$PATH" in words for words in variables)


def test_it_forwards_the_ports_of_jupyterlab_and_triton() -> None:
    triton = [DEFAULT_HTTP, DEFAULT_GRPC, DEFAULT_METRICS]
    assert DEVCONTAINER["forwardPorts"] == [int(laptop_files.value("EXPOSE")), *triton]
    assert {int(port) for port in DEVCONTAINER["portsAttributes"]} == {
        *DEVCONTAINER["forwardPorts"]
    }


@pytest.mark.parametrize(
    ("name", "origin"), [("", None), ("rare-fox-7x", "https://rare-fox-7x-8888.app.github.dev")]
)
def test_a_code_space_may_reach_jupyterlab_and_no_other_address(
    name: str, origin: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN", raising=False)
    monkeypatch.setenv("CODESPACE_NAME", name)
    folder = DEVCONTAINER["containerEnv"]["JUPYTER_CONFIG_PATH"].partition("}/")[2]
    config = PyFileConfigLoader("jupyter_server_config.py", str(ROOT / folder)).load_config()
    assert config.get("ServerApp", {}).get("allow_origin") == origin


# -- versions and names ----------------------------------------------------------------------------


def test_versions_names_and_licences_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = content("CITATION.cff")
    assert citation["version"] == project["version"]
    assert citation["license"] == [project["license"], "CC-BY-4.0"]
    assert [author["name"] for author in citation["authors"]] == [
        a["name"] for a in project["authors"]
    ]
    assert project["authors"][0]["name"].removeprefix("The ") in (ROOT / "LICENSE").read_text(
        "utf-8"
    )
    assert "creativecommons.org/licenses/by/4.0/" in (ROOT / "LICENSE-texts.md").read_text("utf-8")
