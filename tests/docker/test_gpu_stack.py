"""The GPU stack (docker/gpu): what can be tested without Docker and without a GPU.

The compose file is checked against the Compose specification's own schema, and podman-compose reads
it with each profile. Every path, port, image and variable in it is compared with the other files.
The laptop server gets its tritonserver command, a real redis gets redis' command, and promtool gets
Prometheus' config. A real Prometheus scrapes the laptop server under load with this config, and
every query of the dashboard must give data.

Prometheus and redis are Debian's: sudo apt install prometheus redis-server. Without them their
tests are skipped. `make gpu-stack` runs all and writes docker/gpu/CHECKED.md.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import math
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import numpy as np
import pytest
import yaml

from tests.wheels import unpack
from workbook import cli
from workbook.common import paths
from workbook.common.errors import ServerError
from workbook.lab import jupyter
from workbook.server import Triton, all_models, assemble, connect, ports

STACK = paths.root() / "docker" / "gpu"
COMPOSE: dict[str, Any] = yaml.safe_load((STACK / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
SERVERS = ("triton", "triton-vllm", "triton-trtllm")
PROMETHEUS: dict[str, Any] = yaml.safe_load((STACK / "prometheus.yml").read_text("utf-8"))
DASHBOARD: dict[str, Any] = json.loads(
    (STACK / "grafana" / "dashboards" / "triton.json").read_text("utf-8")
)
#: Metrics that a laptop does not have: Triton reads them from NVIDIA's DCGM.
GPU_METRICS = "nv_gpu_"
#: podman-compose, and what it imports apart from PyYAML: requirement, hashes.
COMPOSE_READER = {
    "podman-compose": (
        "podman-compose==1.6.0",
        ("98e48af25d44c10ecef948163bfcca002e32aa8bbb7e66593fbd4faff7270c30",),
    ),
    "python-dotenv": (
        "python-dotenv==1.2.4",
        ("42269a8a5b3fd54ffa6f3d84b18abed50064717576b4ecf03dc4a55d8aa04fdc",),
    ),
}
WAIT = 120.0  # seconds; a busy machine is slow

#: Panel → queries, as the dashboard has them.
QUERIES = {
    (panel["title"], target["refId"]): target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}


def program(name: str, package: str) -> str:
    """The path of a program of Debian's; the test is skipped if it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (Debian, Ubuntu: sudo apt install {package})")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, and end it with the test."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(WAIT)


# -- the compose file ------------------------------------------------------------------------------


@pytest.mark.server
def test_the_compose_file_follows_the_specification(tmp_path: Path) -> None:
    wheel = unpack(
        "check-jsonschema==0.39.0",
        ("14ce5c94871c551268ea948ffe21e9f1464dc48fb20bf9a4c13deeaaf756cf9b",),
        tmp_path,
    )
    file = wheel / "check_jsonschema/builtin_schemas/vendor/compose-spec.json"
    validator = jsonschema.Draft202012Validator(json.loads(file.read_text("utf-8")))
    assert not list(validator.iter_errors(COMPOSE))
    wrong = json.loads(json.dumps(COMPOSE))
    wrong["services"]["lab"]["restarts"] = "always"
    assert list(validator.iter_errors(wrong))  # it does look


@pytest.mark.server
def test_the_compose_client_reads_the_file() -> None:
    compose = [shutil.which("docker") or "docker", "compose"]
    try:
        subprocess.run([*compose, "version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs docker with its compose plugin (docs.docker.com/compose/install)")
    done = subprocess.run(
        [*compose, "-f", STACK / "compose.yaml", "--profile", "*", "config", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import podman-compose from: a second reader of compose files, with no engine."""
    home = tmp_path_factory.mktemp("podman_compose")
    for name, wanted in COMPOSE_READER.items():
        (home / name).mkdir()
        shutil.copytree(unpack(*wanted, home / name), home, dirs_exist_ok=True)
    return home


@pytest.mark.server
@pytest.mark.parametrize(
    ("variables", "server", "release"),
    [
        ({}, "triton", "26.07"),
        ({"COMPOSE_PROFILES": "vllm"}, "triton-vllm", "26.07"),
        ({"COMPOSE_PROFILES": "trtllm"}, "triton-trtllm", "26.07"),
        ({"TRITON_RELEASE": "24.10"}, "triton", "24.10"),
    ],
)
def test_profiles_and_variables_choose_one_server(
    reader: Path, variables: dict[str, str], server: str, release: str
) -> None:
    done = subprocess.run(
        # podman-compose asks podman for its version, but does not need podman to read a file.
        [sys.executable, "-m", "podman_compose", "--podman-path", "/bin/echo", "config"],
        cwd=STACK,
        env={**os.environ, **variables, "PYTHONPATH": str(reader)},
        capture_output=True,
        text=True,
        check=True,
    )
    read = yaml.safe_load(done.stdout)["services"]
    assert set(read) == {server, "lab", "redis", "prometheus", "grafana"}
    suffix = {"triton": "py3", "triton-vllm": "vllm", "triton-trtllm": "trtllm"}[server]
    assert read[server]["image"] == f"triton-workbook-server:{release}-{suffix}"
    assert read["lab"]["image"] == f"triton-workbook-course:{release}"
    for name in (server, "lab"):
        build = read[name]["build"]
        assert Path(STACK, build["context"]).resolve() == paths.root()
        assert f"TRITON_RELEASE={release}" in build["args"]
        assert read[name]["deploy"]["resources"]["reservations"]["devices"]
    assert read[server]["command"][0] == "tritonserver"
    assert read[server]["ports"] == [f"127.0.0.1:{port}:{port}" for port in (8000, 8001, 8002)]


def test_every_image_is_named_with_its_version() -> None:
    release = "${TRITON_RELEASE:-26.07}"
    assert {name: service["image"] for name, service in SERVICES.items()} == {
        "triton": f"triton-workbook-server:{release}-py3",
        "triton-vllm": f"triton-workbook-server:{release}-vllm",
        "triton-trtllm": f"triton-workbook-server:{release}-trtllm",
        "lab": f"triton-workbook-course:{release}",
        "redis": "redis:7.2",
        "prometheus": "prom/prometheus:v3.5.0",
        "grafana": "grafana/grafana:12.1.0",
    }
    built = {name: service["build"] for name, service in SERVICES.items() if "build" in service}
    assert set(built) == {*SERVERS, "lab"}
    stages = dockerfile_stages()
    for name, build in built.items():
        assert (STACK / build["context"]).resolve() == paths.root()
        assert (STACK / build["context"] / build["dockerfile"]).is_file()
        assert build["target"] == ("course" if name == "lab" else "server")
        assert set(build["args"]) <= dockerfile_arguments()
        assert stages[build["target"]].startswith("nvcr.io/nvidia/tritonserver:${TRITON_RELEASE}-")
    images = {name: build["args"].get("TRITON_IMAGE") for name, build in built.items()}
    assert images == {
        "triton": "py3",
        "triton-vllm": "vllm-python-py3",
        "triton-trtllm": "trtllm-python-py3",
        "lab": None,
    }


def dockerfile() -> str:
    return (STACK / "Dockerfile").read_text("utf-8")


def dockerfile_stages() -> dict[str, str]:
    """Stage → the image that it begins with."""
    found = re.findall(r"^FROM (\S+) AS (\S+)$", dockerfile(), re.MULTILINE)
    return {stage: image for image, stage in found}


def dockerfile_arguments() -> set[str]:
    return set(re.findall(r"^ARG (\w+)", dockerfile(), re.MULTILINE))


@pytest.mark.server
def test_hadolint_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    config = paths.root() / "docker" / "hadolint.yaml"
    command = [linter, "--no-color", "--config", config, STACK / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_copies_what_is_there() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile(), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert "workbook" in sources
    for source in sources:
        assert list(paths.root().glob(source)), source
    assert not [
        source for source in sources if "hidden" in source or source.startswith("solutions")
    ]
    wanted = re.search(r"grep -oE '(.+?)'", dockerfile())
    assert wanted
    found = re.findall(wanted[1], (paths.root() / "requirements.txt").read_text(), re.MULTILINE)
    assert sorted(found) == ["pillow", "safetensors", "tokenizers", "transformers"]


def test_the_servers_have_what_the_python_models_import() -> None:
    """Apart from numpy, which NVIDIA's images have."""
    files = (paths.root() / "model_repository").glob("*/1/*.py")
    code = "\n".join(file.read_text("utf-8") for file in files)
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE))
    installed = {"PIL", "safetensors", "tokenizers", "torch", "transformers", "numpy"}
    own = {"sampling", "triton_python_backend_utils"}
    assert imported - installed - own <= set(sys.stdlib_module_names)


def test_every_variable_has_a_default_and_a_line_in_env() -> None:
    text = (STACK / "compose.yaml").read_text("utf-8")
    defaults: dict[str, set[str]] = {}
    for name, default in re.findall(r"\$\{(\w+)(?::-([^}]*))?\}", text):
        defaults.setdefault(name, set()).add(default)
    lines = (STACK / ".env").read_text("utf-8").splitlines()
    env = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert {name: {env[name]} for name in defaults} == defaults
    assert set(env) - set(defaults) == {"COMPOSE_PROFILES"}  # docker compose itself reads it
    assert [env["COMPOSE_PROFILES"]] == SERVICES["triton"]["profiles"]


def test_every_path_is_there() -> None:
    named = set(COMPOSE["volumes"])
    used: set[str] = set()
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            assert target.startswith("/")
            if source.startswith("."):
                assert (STACK / source).exists(), source
            else:
                used.add(source)
    assert used == named


def test_one_repository_is_served_and_written() -> None:
    for name in SERVERS:
        assert SERVICES[name]["volumes"] == ["../../model_repository:/models:ro"]
        assert SERVICES[name]["working_dir"] == "/models"
        assert "--model-repository=/models" in SERVICES[name]["command"]
    assert "../../model_repository:/models" in SERVICES["lab"]["volumes"]
    environment = SERVICES["lab"]["environment"]
    assert environment == {
        "TRITON_URL": "http://triton:8000",
        "TRITON_GRPC_URL": "triton:8001",
        "TRITON_METRICS_URL": "http://triton:8002",
        "TRITON_REPOSITORY": "/models",
        "TRITON_CONTROL": "explicit",
    }
    for name in SERVERS:
        assert "--model-control-mode=explicit" in SERVICES[name]["command"]


def test_ports_are_the_usual_ones_and_open_to_this_machine_only() -> None:
    wanted = {"lab": [8888], "prometheus": [9090], "grafana": [3000]}
    wanted |= {name: [8000, 8001, 8002] for name in SERVERS}
    for name, service in SERVICES.items():
        opened = [port.rsplit(":", 2) for port in service.get("ports", ())]
        assert all(address == "${BIND:-127.0.0.1}" for address, *_ in opened)
        assert [int(inside) for *_, inside in opened] == wanted.get(name, [])
        assert all(outside == inside for _, outside, inside in opened)


def test_each_service_restarts_and_says_whether_it_is_healthy() -> None:
    for name, service in SERVICES.items():
        assert service["restart"] == "unless-stopped", name
        assert service["healthcheck"]["test"][0] == "CMD", name
    for name in (*SERVERS, "lab"):
        (device,) = SERVICES[name]["deploy"]["resources"]["reservations"]["devices"]
        assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        assert SERVICES[name]["shm_size"] == "2gb"
    for name in SERVERS:
        assert SERVICES[name]["ulimits"] == {"memlock": -1, "stack": 67108864}
        assert SERVICES[name]["networks"] == {"default": {"aliases": ["triton"]}}
        assert "/v2/health/ready" in SERVICES[name]["healthcheck"]["test"][-1]
        assert SERVICES[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}
    profiles = [profile for name in SERVERS for profile in SERVICES[name]["profiles"]]
    assert profiles == ["triton", "vllm", "trtllm"]


# -- the servers' command, and the health check ----------------------------------------------------


@pytest.mark.server
def test_the_command_is_understood_by_the_real_server(tmp_path: Path) -> None:
    """All of it but the redis cache, whose library only NVIDIA's container has.

    The server looks for that library, so it has read the option. It starts without a cache.
    """
    place = assemble.find()
    folder = tmp_path / "models"
    folder.mkdir()
    changes = {"--model-repository=/models": f"--model-repository={folder}"}
    command = [changes.get(word, word) for word in SERVICES["triton"]["command"]]
    ports_of = {name: free_port() for name in ("http", "grpc", "metrics")}
    command = [str(place.binary), *command[1:], *(f"--{n}-port={p}" for n, p in ports_of.items())]
    libraries = os.pathsep.join(map(str, place.libraries))
    command = ["env", f"LD_LIBRARY_PATH={libraries}", *command]
    log = tmp_path / "log"
    with running(command, log):
        until(lambda: "Started Metrics Service" in log.read_text(), "the server starts")
    text = log.read_text()
    assert "unable to find 'libtritoncache_redis.so' for cache" in text
    assert re.search(r"model_control_mode\s+\| MODE_EXPLICIT", text)
    assert str(folder) in text
    wrong = subprocess.run(
        [*command, "--no-such-option=1"], capture_output=True, text=True, check=False, timeout=WAIT
    )
    assert wrong.returncode  # it really checks each option
    assert "unrecognized option '--no-such-option=1'" in wrong.stderr


@pytest.mark.server
def test_a_model_without_its_backend_is_left_out_with_a_sentence(tmp_path: Path) -> None:
    """As in NVIDIA's releases since 25.03: a server that lacks the tensorflow backend."""
    models, backends = tmp_path / "models", tmp_path / "backends"
    for name in ("digits_tf", "square"):
        ignore = shutil.ignore_patterns("__pycache__", "model.savedmodel")
        shutil.copytree(paths.root() / "model_repository" / name, models / name, ignore=ignore)
    (models / "digits_tf" / "1" / "model.savedmodel").mkdir(parents=True)
    shutil.copytree(assemble.find().backends / "python", backends / "python")
    with Triton(models, models=[], options=[f"--backend-directory={backends}"]) as server:
        failed = all_models.load_all(server, ["digits_tf", "square"])
        assert server.ready("square")
    assert set(failed) == {"digits_tf"}
    message = str(failed["digits_tf"])
    assert 'This server has no backend "tensorflow".' in message
    assert "NVIDIA's containers have it up to release 25.02. Leave the model out" in message


@pytest.mark.server
def test_lab_loads_the_models_of_a_server_that_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variables of the service `lab`, and the addresses of a real server."""
    ignore = shutil.ignore_patterns("__pycache__")
    source = paths.root() / "model_repository" / "square"
    shutil.copytree(source, tmp_path / "square", ignore=ignore)
    with Triton(tmp_path, models=[]) as server:
        places = {
            "TRITON_URL": server.url,
            "TRITON_GRPC_URL": server.grpc_url,
            "TRITON_METRICS_URL": server.metrics_url,
            "TRITON_REPOSITORY": str(tmp_path),
        }
        for name, value in (SERVICES["lab"]["environment"] | places).items():
            monkeypatch.setenv(name, value)
        found, finish = jupyter.server(http=8000, grpc=8001, metrics=8002)
        assert (found.url, found.control) == (server.url, "explicit")
        cli._load_missing(found, "all")
        finish()
        assert server.ready("square")
        monkeypatch.setenv("TRITON_CONTROL", "manual")
        with pytest.raises(ServerError, match=r"'manual' is no model control mode"):
            connect()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """The laptop server with one model that batches, one with a cache and one that refuses."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(
        paths.root() / "model_repository" / "square",
        folder / "square",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copytree(folder / "square", folder / "cached")
    with (folder / "cached" / "config.pbtxt").open("a") as config:
        config.write("response_cache { enable: true }\n")
    shutil.copytree(folder / "square", folder / "narrow")
    config_file, code = folder / "narrow" / "config.pbtxt", folder / "narrow" / "1" / "model.py"
    policy = "default_queue_policy { default_timeout_microseconds: 1000 }"
    config = config_file.read_text()
    for old, new in (
        ("dynamic_batching { }", f"dynamic_batching {{ {policy} }}"),
        ("max_batch_size: 64", "max_batch_size: 1"),
    ):
        assert old in config
        config = config.replace(old, new)
    config_file.write_text(config)
    first = "        responses = []\n"
    assert first in code.read_text()
    code.write_text(
        code.read_text().replace(first, f"        __import__('time').sleep(0.1)\n{first}")
    )
    with Triton(folder, models=["square", "cached", "narrow"]) as server:
        yield server


@pytest.mark.server
def test_the_health_check_asks_a_real_server(loaded: Triton) -> None:
    _, program_name, *arguments = SERVICES["triton"]["healthcheck"]["test"]
    for url, healthy in ((loaded.url, True), (f"http://127.0.0.1:{free_port()}", False)):
        here = [word.replace("http://localhost:8000", url) for word in arguments]
        assert here != arguments
        done = subprocess.run([program_name, *here], capture_output=True, check=False)
        assert (done.returncode == 0) is healthy


# -- redis -----------------------------------------------------------------------------------------


@pytest.mark.server
def test_redis_takes_its_command_line(tmp_path: Path) -> None:
    server, client = program("redis-server", "redis-server"), program("redis-cli", "redis-tools")
    port = str(free_port())
    name, *arguments = SERVICES["redis"]["command"]
    assert name == "redis-server"

    def ask(*words: str) -> str:
        done = subprocess.run(
            [client, "-p", port, *words], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    check = SERVICES["redis"]["healthcheck"]["test"][1:]
    assert check[0] == "redis-cli"
    command = [server, *arguments, "--port", port, "--bind", "127.0.0.1", "--dir", str(tmp_path)]
    with running(command, tmp_path / "log"):
        until(lambda: ask(*check[1:]) == "PONG", "redis answers its health check")
        assert ask("config", "get", "maxmemory").split() == ["maxmemory", str(512 << 20)]
        assert ask("config", "get", "maxmemory-policy").split()[1] == "allkeys-lru"
        assert ask("config", "get", "save").split() == ["save"]
        assert ask("config", "get", "appendonly").split()[1] == "no"
        ask("set", "key", "answer")
        assert ask("get", "key") == "answer"
    assert not list(tmp_path.glob("*.rdb"))  # nothing was written


def until(holds: Any, what: str) -> None:
    """Wait until something holds; fail the test if it never does."""
    end = time.monotonic() + WAIT
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"never came: {what}")
        time.sleep(0.2)


# -- Prometheus and the dashboard ------------------------------------------------------------------


@pytest.mark.server
def test_promtool_accepts_the_config() -> None:
    done = subprocess.run(
        [program("promtool", "prometheus"), "check", "config", STACK / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_what_compose_serves() -> None:
    (job,) = PROMETHEUS["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["triton:8002"]}]
    mounted = [volume.split(":")[:2] for volume in SERVICES["prometheus"]["volumes"]]
    assert ["./prometheus.yml", "/etc/prometheus/prometheus.yml"] in mounted
    assert "--config.file=/etc/prometheus/prometheus.yml" in SERVICES["prometheus"]["command"]


def test_grafana_finds_its_data_and_its_dashboard() -> None:
    home = STACK / "grafana" / "provisioning"
    sources = yaml.safe_load((home / "datasources" / "prometheus.yaml").read_text("utf-8"))
    providers = yaml.safe_load((home / "dashboards" / "triton.yaml").read_text("utf-8"))
    (source,) = sources["datasources"]
    (provider,) = providers["providers"]
    assert sources["apiVersion"] == providers["apiVersion"] == 1
    assert source["url"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]
    mounted = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    assert mounted["./grafana/provisioning"] == "/etc/grafana/provisioning"
    assert mounted["./grafana/dashboards"] == provider["options"]["path"]
    shown = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert shown == f"{provider['options']['path']}/triton.json"
    used = [DASHBOARD["templating"]["list"][0], *DASHBOARD["panels"]]
    used += [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
    wanted = {"type": source["type"], "uid": source["uid"]}
    assert all(part["datasource"] == wanted for part in used)


def test_the_dashboard_is_whole() -> None:
    panels = DASHBOARD["panels"]
    assert DASHBOARD["uid"]
    assert DASHBOARD["title"]
    assert DASHBOARD["schemaVersion"] >= 36
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))  # no two overlap
    assert max(x for x, _ in cells) < 24
    assert all(panel["type"] == "timeseries" and panel["description"] for panel in panels)
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([panel["targets"] for panel in panels])))
    assert used == {"model", "__rate_interval"}


@pytest.fixture(scope="module")
def prometheus(loaded: Triton, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus that scrapes the laptop server under load; its address."""
    binary = program("prometheus", "prometheus")
    home = tmp_path_factory.mktemp("prometheus")
    config = json.loads(json.dumps(PROMETHEUS))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (job,) = config["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{ports.of(loaded.metrics_url)}"]}]
    (home / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [
        binary,
        f"--config.file={home / 'prometheus.yml'}",
        f"--storage.tsdb.path={home / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    over = threading.Event()
    senders = [
        threading.Thread(target=send, args=(loaded, over, number), daemon=True)
        for number in range(6)
    ]
    with running(command, home / "log"):
        for sender in senders:
            sender.start()
        try:
            yield f"http://{address}"
        finally:
            over.set()
            for sender in senders:
                sender.join(WAIT)


def send(server: Triton, over: threading.Event, number: int) -> None:
    """Send requests to all three models; `narrow` refuses those that wait for a millisecond."""
    with httpx.Client(base_url=server.url, timeout=WAIT) as client:
        for turn in itertools.count():
            if over.is_set():
                return
            rows = np.full((1, 64), turn % 5 + number / 10).tolist()
            tensor = {"name": "INPUT", "shape": [1, 64], "datatype": "FP32", "data": rows}
            for model in ("square", "cached", "narrow"):
                client.post(f"/v2/models/{model}/infer", json={"inputs": [tensor]})


def run(address: str, query: str) -> list[dict[str, Any]]:
    """The series that a query gives now, without those that are not numbers."""
    query = query.replace("$model", ".+").replace("$__rate_interval", "20s")
    answer = httpx.get(f"{address}/api/v1/query", params={"query": query}, timeout=WAIT).json()
    assert answer["status"] == "success", answer
    return [s for s in answer["data"]["result"] if math.isfinite(float(s["value"][1]))]


@pytest.mark.server
@pytest.mark.parametrize("panel", QUERIES, ids=lambda panel: f"{panel[0]} {panel[1]}")
def test_each_query_gives_data(prometheus: str, panel: tuple[str, str]) -> None:
    query = QUERIES[panel]

    def answers() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return bool(run(prometheus, query))
        return False

    if GPU_METRICS in query:
        # Prometheus must at least understand queries for which there is no data here.
        until(lambda: alive(prometheus), "Prometheus answers")
        assert run(prometheus, query) == []
        return
    until(answers, f"data for {query}")
    shown = panel_of(panel[0])
    if shown["targets"][0]["legendFormat"].startswith("{{model}}"):
        assert all(series["metric"]["model"] for series in run(prometheus, query))


def alive(address: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{address}/-/ready", timeout=WAIT).status_code == 200
    return False


def panel_of(title: str) -> dict[str, Any]:
    return next(panel for panel in DASHBOARD["panels"] if panel["title"] == title)


@pytest.mark.server
def test_the_queries_say_what_the_statistics_say(prometheus: str, loaded: Triton) -> None:
    """The reasons of failures, the batch size and the cache's share are those of the server."""
    reasons: set[str] = set()

    def refused() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            reasons.update(
                series["metric"]["reason"]
                for series in run(prometheus, QUERIES["Failed requests", "A"])
                if float(series["value"][1]) > 0
            )
        return "REJECTED" in reasons

    until(refused, "requests that `narrow` refuses")
    sizes = {
        series["metric"]["model"]: float(series["value"][1])
        for series in run(prometheus, QUERIES["Batch size", "A"])
    }
    assert sizes["square"] >= 1
    (hits,) = run(prometheus, QUERIES["Response cache: hits", "A"])
    assert hits["metric"]["model"] == "cached"
    assert 0 < float(hits["value"][1]) <= 1


@pytest.mark.server
def test_what_ran_is_written_down(prometheus: str) -> None:
    """`make gpu-stack` sets WORKBOOK_RECORD; this table is then the record of the run."""
    record = os.environ.get("WORKBOOK_RECORD")
    if not record:
        pytest.skip("`make gpu-stack` writes docker/gpu/CHECKED.md")
    until(lambda: bool(run(prometheus, QUERIES["Batch size", "A"])), "data")
    programs = {
        "Prometheus": first_line("prometheus", "--version"),
        "promtool": first_line("promtool", "--version"),
        "redis": first_line("redis-server", "--version"),
        "server": "the laptop server, Triton 2.51.0",
        "machine": f"{platform.system()}, {os.cpu_count()} cores, no Docker, no GPU",
    }
    lines = [
        "# What of the GPU stack was run without Docker and without a GPU",
        "",
        "`make gpu-stack` writes this file. The containers themselves are not verified.",
        "",
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "",
        "| what | version |",
        "|---|---|",
        *(f"| {name} | {version} |" for name, version in programs.items()),
        "",
        "| panel | query | series in a real Prometheus |",
        "|---|---|---|",
    ]
    for (title, letter), query in QUERIES.items():
        found = len(run(prometheus, query))
        shown = f"{found}" if GPU_METRICS not in query else "no GPU here"
        lines.append(f"| {title} {letter} | `{query}` | {shown} |")
    Path(record).write_text("\n".join(lines) + "\n")


def first_line(name: str, option: str) -> str:
    done = subprocess.run([program(name, name), option], capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).splitlines()[0]
