"""The installer: pip's settings reach uv, and the lists hold versions, hashes and no addresses."""

from __future__ import annotations

import re

import pytest

from workbook.common import paths
from workbook.lab import install

LISTS = ("requirements.txt", "requirements-vllm.txt", "requirements-uv.txt")


def test_pip_s_settings_reach_uv() -> None:
    assert install.uv_settings(
        "global.find-links='/wheels\\n/more'\n"
        "global.extra-index-url='https://one.example/simple https://two.example/simple'\n"
        "global.cert='/etc/ca.pem'\n"
        "global.quiet='1'\n"
    ) == {
        "UV_SYSTEM_CERTS": "true",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "SSL_CERT_FILE": "/etc/ca.pem",
    }


def test_pip_s_own_order_of_settings_is_kept() -> None:
    found = install.uv_settings(
        ":env:.index-url='https://environment.example/simple'\n"
        "install.index-url='https://install.example/simple'\n"
        "global.index-url='https://global.example/simple'\n"
        "global.proxy='http://proxy.example:3128'\n"
    )
    assert found["UV_DEFAULT_INDEX"] == "https://environment.example/simple"
    assert found["ALL_PROXY"] == "http://proxy.example:3128"


@pytest.mark.parametrize("name", LISTS)
def test_every_package_has_a_version_and_a_hash_and_no_address(name: str) -> None:
    text = (paths.root() / name).read_text(encoding="utf-8")
    packages = re.findall(r"^[\w.\-\[\]]+==\S+.*\\\n(?:    --hash=sha256:\w{64}.*\n)+", text, re.M)
    names = re.findall(r"^\w.*$", text, re.M)
    assert len(packages) == len(names) > 0
    assert "://" not in text
    assert not re.search(r"^-", text, re.M)  # no option such as --index-url


@pytest.mark.parametrize("name", LISTS)
def test_a_list_holds_what_its_source_asks_for(name: str) -> None:
    def packages(text: str) -> set[str]:
        found = re.findall(r"^([A-Za-z][\w.\-]*)", text, re.M)
        return {re.sub(r"[-_.]+", "-", package).lower() for package in found}

    source = (paths.root() / name).with_suffix(".in").read_text(encoding="utf-8")
    assert packages(source) <= packages((paths.root() / name).read_text(encoding="utf-8"))
