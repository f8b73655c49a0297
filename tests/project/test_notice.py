"""NOTICE.md names every package that the course asks for, and what its licence forbids."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from tests.project import licences
from workbook.common import paths

NOTICE = (paths.root() / "NOTICE.md").read_text("utf-8")
RENEW = "`.venv/bin/python -m tests.project.licences` prints the rows for NOTICE.md"


def test_every_package_of_the_requirement_lists_is_in_the_table_once() -> None:
    named = [name for row in licences.noticed().values() for name in row]
    assert sorted(named) == licences.direct(), RENEW


def test_the_licences_are_those_of_the_installed_packages() -> None:
    wrong = [
        f"{name} is under {licences.metadata(name)}, not {licence}"
        for licence, packages in licences.noticed().items()
        for name in packages
        if licences.metadata(name) and licences.licence(name) != licence
    ]
    assert not wrong, RENEW


def test_what_is_not_under_a_permissive_licence_is_named() -> None:
    """Of everything installed, whether the course asks for it or another package does."""
    packages = licences.installed()
    assert len(packages) > 200
    lacking = [
        f"{name}: {licences.metadata(name)}"
        for name in packages
        if not licences.PERMISSIVE.search(licences.metadata(name)) and f"`{name}`" not in NOTICE
    ]
    assert not lacking, "NOTICE.md has to say what these licences forbid"


@pytest.mark.parametrize(
    ("text", "permissive"),
    [
        ("LicenseRef-NVIDIA-Proprietary", False),
        ("GPL-3.0", False),
        ("LGPL-2.1-only", False),
        ("not named", False),
        ("BSD-3-Clause", True),
        ("Apache Software License", True),
    ],
)
def test_a_licence_that_asks_for_more_is_noticed(text: str, permissive: bool) -> None:
    assert bool(licences.PERMISSIVE.search(text)) == permissive


def test_what_comes_without_a_package_is_named() -> None:
    compose = yaml.safe_load((paths.root() / "docker/gpu/compose.yaml").read_text("utf-8"))
    images = {one["image"].partition(":")[0] for one in compose["services"].values()}
    for image in images - {"triton-workbook-server", "triton-workbook-course"}:
        assert f"`{image}`" in NOTICE
    perf = (paths.root() / "workbook/measure/perf_install.py").read_text("utf-8")
    assert f"`perf_analyzer` {re.findall(r'VERSION = .([0-9.]+)', perf)[0]}" in NOTICE
    proxy = (paths.root() / "docker/hub/one_machine/proxy/package.json").read_text("utf-8")
    (name,) = re.findall(r'"([\w-]+)": "[0-9.]+"', proxy)
    assert name in NOTICE


def test_every_file_of_the_repository_that_the_notice_names_is_there() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=paths.root(), capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    names = re.findall(r"`((?:workbook|tests|docker|lectures)/[\w./-]+)`", NOTICE)
    assert len(names) > 8
    for name in names:
        assert any(file == name or file.startswith(name.rstrip("/") + "/") for file in tracked), (
            name
        )


def test_binary_files_of_the_repository_are_named() -> None:
    """Git calls a file binary if it has zero bytes: weights, pictures, archives."""
    listed = subprocess.run(
        ["git", "ls-files", "--eol"], cwd=paths.root(), capture_output=True, text=True, check=True
    ).stdout.splitlines()  # fmt: skip
    binary = [line.split("\t")[1] for line in listed if line.startswith("i/-text")]
    assert binary
    for name in binary:
        folder = name.rpartition("/")[0] + "/"
        assert f"`{name}`" in NOTICE or f"`{folder}`" in NOTICE, name
