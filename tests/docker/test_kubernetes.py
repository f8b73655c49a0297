"""Check the files in docker/hub/kubernetes against the published schemas.

- Kubernetes' own kinds: the schemas in the package kubernetes-validate, in strict mode.
- Zero to JupyterHub's values: `zero_to_jupyterhub.json`, the part of the chart's schema that
  values.yaml uses. No package index has the chart; the file says where its schema comes from.
"""

from __future__ import annotations

import copy
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dask.config
import httpx
import jsonschema
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from workbook.common import paths
from workbook.server import Triton

HERE = paths.root() / "docker/hub/kubernetes"
#: The oldest and the newest version of Kubernetes that the files are for.
VERSIONS = ("1.33", "1.37")

pytestmark = pytest.mark.skipif(
    find_spec("kubernetes_validate") is None, reason="needs `make test ALL=yes`"
)


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((HERE / name).read_text()))


def check(document: dict[str, Any], version: str) -> None:
    """Check a document against Kubernetes' schema; an unknown field is an error."""
    import kubernetes_validate

    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["triton.yaml", "grading.yaml"])
def test_manifests(name: str, version: str) -> None:
    for document in documents(name):
        check(document, version)


def test_the_checker_finds_what_is_wrong() -> None:
    deployment = documents("triton.yaml")[0]
    for path, value in ((("replica",), 2), (("template", "spec", "containers"), "triton")):
        wrong = copy.deepcopy(deployment)
        place = wrong["spec"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        with pytest.raises(Exception, match=path[-1] if path[-1] == "replica" else "triton"):
            check(wrong, VERSIONS[-1])


def test_triton_s_parts_name_each_other() -> None:
    found = {document["kind"]: document for document in documents("triton.yaml")}
    pod = found["Deployment"]["spec"]["template"]
    labels, (container,) = pod["metadata"]["labels"], pod["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    selectors = [
        found["Deployment"]["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", "triton")
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} <= ports
    used = [
        port["port"] for rule in found["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]
    ]
    assert set(used) <= ports
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert {probe["port"] for probe in probes} <= ports
    (monitor,) = documents("service-monitor.yaml")
    assert {end["port"] for end in monitor["spec"]["endpoints"]} <= ports
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["spec"]["volumes"]}


@pytest.mark.server
def test_the_autoscaler_s_metric_is_one_of_the_adapter_s_and_triton_has_its_sources() -> None:
    (autoscaler,) = (d for d in documents("triton.yaml") if d["kind"] == "HorizontalPodAutoscaler")
    wanted = {metric["pods"]["metric"]["name"] for metric in autoscaler["spec"]["metrics"]}
    (adapter,) = documents("prometheus-adapter.yaml")
    rules = adapter["rules"]["custom"]
    assert wanted == {rule["name"]["as"] for rule in rules}
    with Triton(models=["square"]) as server:
        families = list(text_string_to_metric_families(httpx.get(server.metrics_url).text))
        probes = [d for d in documents("triton.yaml") if d["kind"] == "Deployment"]
        (container,) = probes[0]["spec"]["template"]["spec"]["containers"]
        for name in ("startup", "liveness", "readiness"):
            path = container[f"{name}Probe"]["httpGet"]["path"]
            assert httpx.get(server.url + path).status_code == 200
    names = {family.name for family in families}
    for rule in rules:
        for source in ("nv_inference_queue_duration_us", "nv_inference_request_success"):
            assert source in rule["metricsQuery"]
            assert source in names


def test_grading_s_parts_fit_each_other_and_the_grader() -> None:
    found = {
        d["metadata"]["name"]: d for d in documents("grading.yaml") if d["kind"] == "Deployment"
    }
    pods = [d["spec"]["template"]["spec"] for d in found.values()]
    (settings,) = (d for d in documents("grading.yaml") if d["kind"] == "ConfigMap")
    for pod in pods:
        (container,) = pod["containers"]
        (source,) = container["envFrom"]
        assert source["configMapRef"]["name"] == settings["metadata"]["name"]
        # The variables and files that `grader cluster` prints and writes, as dask reads them.
        read = dask.config.collect_env(settings["data"])["distributed"]["comm"]
        assert read["require_encryption"] is True
        mounted = {m["mountPath"] for m in container["volumeMounts"]}
        for role in ("scheduler", "worker"):
            assert Path(read["tls"][role]["cert"]).parent.as_posix() in mounted
    (service,) = (d for d in documents("grading.yaml") if d["kind"] == "Service")
    address = next(w for w in pods[1]["containers"][0]["args"] if w.startswith("tls://"))
    (port,) = service["spec"]["ports"]
    assert address == f"tls://{service['metadata']['name']}:{port['port']}"
    scheduler = found["grading-scheduler"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= scheduler.items()


def test_the_hub_s_values() -> None:
    (values,) = documents("values.yaml")
    stored = json.loads(Path(__file__).with_name("zero_to_jupyterhub.json").read_text())
    jsonschema.validate(values, stored["schema"])
    wrong = copy.deepcopy(values)
    wrong["singleuser"]["memory"]["limits"] = "4G"
    with pytest.raises(jsonschema.ValidationError, match="limits"):
        jsonschema.validate(wrong, stored["schema"])


def test_the_hub_s_settings_exist_in_jupyterhub() -> None:
    """hub.config is passed to the classes unchanged: each key must be a setting of its class."""
    from jupyterhub.app import JupyterHub
    from jupyterhub.auth import Authenticator
    from ltiauthenticator.lti13.auth import LTI13Authenticator

    (values,) = documents("values.yaml")
    config = values["hub"]["config"]
    classes = {c.__name__: c for c in (JupyterHub, Authenticator, LTI13Authenticator)}
    for name, settings in config.items():
        assert settings.keys() <= classes[name].class_traits(config=True).keys()
    place = f"{LTI13Authenticator.__module__}.{LTI13Authenticator.__name__}"
    assert config["JupyterHub"]["authenticator_class"] == place
    needed = {"issuer", "authorize_url", "jwks_endpoint", "client_id"}
    assert needed <= config["LTI13Authenticator"].keys()
