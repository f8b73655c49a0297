"""Look-ups for ensembles that the server refuses. ensembles.toml has the messages."""

from __future__ import annotations

import re
from pathlib import Path

from ..pbtxt import Field, Message, Scalar, parse
from .evidence import CONFIG, PLACES, Evidence, show
from .rules import Advice, Catalogue, Parts, listed, near, near_or_only
from .unbuilt_models import unbuilt

ENSEMBLES: Catalogue[Evidence] = Catalogue("ensembles", PLACES)


@ENSEMBLES.look_up
def unused(evidence: Evidence, parts: Parts) -> Parts | Advice:
    """The map of a step that may be meant."""
    if (advice := _without_value(evidence)) is not None:
        return advice
    kind, name = parts["kind"], parts["name"]
    used = {value.text: show(field) for field, value in _maps(evidence, f"{kind}_map")}
    meant = near(name, used)
    return {
        "map": "input_map" if kind == "input" else "output_map",
        "input": "yes" if kind == "input" else "",
        "upper": kind.upper(),
        "meant": meant,
        "place": used[meant] if meant else evidence.at_tensor(kind, name),
    }


@ENSEMBLES.look_up
def tensor_unused(evidence: Evidence, parts: Parts) -> Parts | Advice:
    """The map that gives the tensor."""
    return _without_value(evidence) or {"place": _at_map(evidence, "output_map", parts["name"])}


@ENSEMBLES.look_up
def tensor_missing(evidence: Evidence, parts: Parts) -> Parts | Advice:
    """The map that takes the tensor, and the tensor that may be meant."""
    if (advice := _without_value(evidence)) is not None:
        return advice
    tensor = parts.get("tensor", "")
    given = [value.text for _, value in _maps(evidence, "output_map")]
    return {
        "circle": "yes" if not tensor or tensor in given else "",
        "meant": near(tensor, [*given, *evidence.tensor_names("input")]),
        "place": _at_map(evidence, "input_map", tensor),
    }


@ENSEMBLES.look_up
def named_field(evidence: Evidence, parts: Parts) -> Parts:
    """The place of the field that the message names."""
    return {"place": evidence.at(parts["field"])}


@ENSEMBLES.look_up
def member_missing(evidence: Evidence, parts: Parts) -> Parts | Advice:
    """The member, and whether the repository has it."""
    name = parts["names"].rstrip('";. ').split(",")[0].strip()
    if (advice := unbuilt(evidence.folder.parent / name)) is not None:
        return advice
    known = evidence.neighbours()
    own = name in known
    return {
        "name": name,
        "own": name if own else "",
        "meant": near(name, known),
        "place": f"{name}/{CONFIG}" if own else _at_member(evidence, name),
    }


@ENSEMBLES.look_up
def member_failed(evidence: Evidence, parts: Parts) -> Parts | Advice:
    """Why the member did not load, and the step that names it."""
    if (advice := unbuilt(evidence.folder.parent / parts["member"])) is not None:
        return advice
    why = parts.get("why", "").rpartition("UNAVAILABLE state: ")[2].rstrip("; ")
    return {"reason": why, "place": _at_member(evidence, parts["member"])}


@ENSEMBLES.look_up
def member_version(evidence: Evidence, parts: Parts) -> Parts:
    """The step that names the member's version."""
    step = _member(evidence, parts["member"])
    return {"place": evidence.at(f"{step.path}.model_version", step.path) if step else CONFIG}


@ENSEMBLES.look_up
def other_name(evidence: Evidence, parts: Parts) -> Parts:
    """The names that the member has for its tensors."""
    kind, name, member = parts["kind"], parts.get("name", ""), parts["member"]
    names = _names(evidence.folder.parent / member, kind)
    fields = [
        field
        for field in _map_fields(evidence, f"{kind}_map")
        if isinstance(field.value, Message) and field.value.text("key") == name
    ]
    swapped = name in evidence.tensor_names(kind) and parts["tensor"] in names
    return {
        "nameless": "" if name else "yes",
        "swapped": "yes" if swapped else "",
        "names": listed(names) if names else "",
        "choice": listed(names, "or"),
        "meant": near_or_only(name, names),
        "place": show(fields[0]) if fields else _at_member(evidence, member),
    }


@ENSEMBLES.look_up
def inconsistent(evidence: Evidence, parts: Parts) -> Parts:
    """Which of the two is the ensemble itself, and what it must write."""
    tensor, first, second = parts["tensor"].rstrip(":"), parts["first"], parts["second"]
    if evidence.model not in (first, second):
        return {"tensor": tensor, "kind": "", "other": "",
                "place": _at_map(evidence, "input_map", tensor)}  # fmt: skip
    kind = "input" if tensor in evidence.tensor_names("input") else "output"
    is_first = first == evidence.model
    own, theirs = (parts["one"], parts["two"])[:: 1 if is_first else -1]
    batched = evidence.value("max_batch_size", "0") != "0" and theirs.startswith("-1")
    return {
        "tensor": tensor,
        "kind": kind,
        "own": own,
        "theirs": theirs,
        "other": second if is_first else first,
        "batched": "yes" if batched else "",
        "right": theirs.removeprefix("-1,") if batched else theirs,
        "place": evidence.at_tensor(kind, tensor, "data_type" if "TYPE" in theirs else "dims"),
    }


@ENSEMBLES.look_up
def batch(evidence: Evidence, parts: Parts) -> Parts:
    """Whether the member batches at all."""
    return {"alone": "yes" if parts["limit"] == "0" else ""}


def _member(evidence: Evidence, name: str) -> Field | None:
    for step in _map_fields(evidence, "step"):
        if isinstance(step.value, Message) and step.value.text("model_name") == name:
            return step
    return None


def _at_member(evidence: Evidence, name: str) -> str:
    step = _member(evidence, name)
    path = step.path if step else "ensemble_scheduling"
    return evidence.at(f"{path}.model_name", path)


def _at_map(evidence: Evidence, kind: str, tensor: str) -> str:
    """The first input_map or output_map with a tensor as its value."""
    places = [show(field) for field, value in _maps(evidence, kind) if value.text == tensor]
    return places[0] if places else evidence.at("ensemble_scheduling")


def _map_fields(evidence: Evidence, name: str) -> list[Field]:
    return [f for f in evidence.config.walk() if f.name == name]


def _maps(evidence: Evidence, name: str) -> list[tuple[Field, Scalar]]:
    """The values of every input_map or output_map: the ensemble's own names."""
    found = []
    for field in _map_fields(evidence, name):
        if isinstance(field.value, Message):
            for entry in field.value.all("value"):
                if isinstance(entry.value, Scalar):
                    found.append((entry, entry.value))
    return found


def _without_value(evidence: Evidence) -> Advice | None:
    """The advice for an entry of a map that has no value; None if each entry has one.

    Triton reads such an entry as the entry of a tensor without a name. It then refuses the tensor
    that was meant.
    """
    for kind in ("input", "output"):
        for field in _map_fields(evidence, f"{kind}_map"):
            section = field.value
            if not isinstance(section, Message) or section.text("value"):
                continue
            step = field.path.rpartition(".")[0]
            index = re.search(r"step\[(\d+)\]", step)
            member = evidence.value(f"{step}.model_name")
            tensor = _not_connected(evidence, kind)
            value = f'value: "{tensor}"' if tensor else "value: and the ensemble's name for it"
            if key := section.text("key"):
                what = f'The {kind}_map of "{key}" (model {member}) has no value.'
                return Advice(what, show(field), f"Write {value}.")
            return Advice(
                f"An {kind}_map of step {index[1] if index else 0} (model {member}) is empty.",
                show(field),
                f"Write key: and the model's own name, and {value}.",
            )
    return None


def _not_connected(evidence: Evidence, kind: str) -> str:
    """The only tensor that no step takes (for an input_map) or gives; else ""."""
    taken = {value.text for _, value in _maps(evidence, "input_map")}
    given = {value.text for _, value in _maps(evidence, "output_map")}
    sources = {*given, *evidence.tensor_names("input")}
    targets = {*taken, *evidence.tensor_names("output")}
    left = (sources - targets if kind == "input" else targets - sources) - {""}
    return left.pop() if len(left) == 1 else ""


def _names(folder: Path, kind: str) -> list[str]:
    """The inputs or outputs of another model, as its config.pbtxt names them."""
    try:
        document = parse((folder / CONFIG).read_text("utf-8", errors="replace"))
    except OSError:
        return []
    values = [f.value for f in document.root.all(kind)]
    return [v.text("name") for v in values if isinstance(v, Message)]
