"""What the server refuses in an ensemble: its members, its maps, its tensors.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..pbtxt import Field, Message, Scalar, parse
from .evidence import CONFIG, Evidence, at_field, show
from .rules import Advice, Catalogue, Said, listed, near
from .unbuilt_models import unbuilt

ENSEMBLES: Catalogue[Evidence] = Catalogue()


def _at_step(evidence: Evidence, said: Said) -> str:
    return evidence.at(f"ensemble_scheduling.step[{said['step']}]", "ensemble_scheduling.step")


def _at_last_output(evidence: Evidence, said: Said) -> str:
    places = [f for f, value in _maps(evidence, "output_map") if value.text == said["name"]]
    return show(places[-1]) if places else evidence.at("ensemble_scheduling")


@ENSEMBLES.rule(
    "ensemble-unused",
    "ensemble {kind:id} '{name}' for ensemble {model:word}' is not used",
    "ensemble {kind:id} '{name}' for ensemble '{model}' is not used",
)
def ensemble_unused(evidence: Evidence, said: Said) -> Advice:
    """Map every input and output of the ensemble to a step."""
    if (advice := _without_value(evidence)) is not None:
        return advice
    kind, name = said["kind"], said["name"]
    wanted = "input_map" if kind == "input" else "output_map"
    used = [value for _, value in _maps(evidence, wanted)]
    meant = near(name, [value.text for value in used])
    if meant:
        field = next(f for f, value in _maps(evidence, wanted) if value.text == meant)
        return Advice(
            f'No step uses the ensemble\'s {kind} "{name}"; one uses "{meant}".',
            show(field),
            f'Write value: "{name}" in that {wanted}, or rename the {kind} to "{meant}".',
        )
    return Advice(
        f'No step {"takes" if kind == "input" else "gives"} the ensemble\'s {kind} "{name}".',
        evidence.at_tensor(kind, name),
        f'Map it in a step: {wanted} {{ key: "THE MODEL\'S {kind.upper()}" value: "{name}" }}, '
        f"or take the {kind} out.",
    )


@ENSEMBLES.rule(
    "ensemble-tensor-unused", "ensemble tensor '{name}' is unused in ensemble '{model}'"
)
def ensemble_tensor_unused(evidence: Evidence, said: Said) -> Advice:
    """Give the tensor to a step or to the client, or take its output_map out."""
    if (advice := _without_value(evidence)) is not None:
        return advice
    name = said["name"]
    places = [show(f) for f, value in _maps(evidence, "output_map") if value.text == name]
    return Advice(
        f'A step gives the tensor "{name}", and nothing takes it.',
        places[0] if places else evidence.at("ensemble_scheduling"),
        f'Take it with a step (input_map {{ key: "THE MODEL\'S INPUT" value: "{name}" }}), make '
        "it an output of the ensemble, or take this output_map out.",
    )


@ENSEMBLES.rule(
    "ensemble-tensor-missing",
    "output '{name}' for ensemble '{model}' is not written: at least one of its depending tensors, "
    "'{tensor}', is not connected",
    "output '{name}' for ensemble '{model}' is not written",
)
def ensemble_tensor_missing(evidence: Evidence, said: Said) -> Advice:
    """Write the name of a tensor that a step gives, or that is an input of the ensemble."""
    if (advice := _without_value(evidence)) is not None:
        return advice
    tensor = said.get("tensor", "")
    places = [show(f) for f, value in _maps(evidence, "input_map") if value.text == tensor]
    where = places[0] if places else evidence.at("ensemble_scheduling")
    given = [value.text for _, value in _maps(evidence, "output_map")]
    if not tensor or tensor in given:
        return Advice(
            f'The output "{said["name"]}" can never be computed: two steps or more wait for each '
            "other.",
            where,
            "Look at the maps of each step: the tensors must lead from the ensemble's inputs to "
            "its outputs without a circle.",
        )
    meant = near(tensor, [*given, *evidence.tensor_names("input")])
    return Advice(
        f'A step takes the tensor "{tensor}", and no step gives it.',
        where,
        f'Write value: "{meant}".'
        if meant
        else f'Let a step give it (output_map {{ key: "THE MODEL\'S OUTPUT" value: "{tensor}" }}), '
        "or make it an input of the ensemble.",
    )


ENSEMBLES.row(
    "ensemble-instances",
    "instance group should not be specified for ensemble",
    what="An ensemble has no instances of its own.",
    where=at_field("instance_group"),
    todo="Take instance_group out; write it into the configs of the models inside.",
)
ENSEMBLES.row(
    "ensemble-field",
    "{field:id} should not be specified for ensemble '{model}'",
    "{field:id} can not be specified for ensemble '{model}'",
    what="An ensemble cannot have {field}.",
    where=lambda evidence, said: evidence.at(said["field"]),
    todo="Take {field} out, with all of its lines; write it into the configs of the models inside.",
)
ENSEMBLES.row(
    "ensemble-platform",
    "Ensemble model '{model}' must have platform type 'ensemble' and empty backend type",
    what="An ensemble has no backend, and the config names one.",
    where=at_field("backend"),
    todo="Take the line backend out.",
)
ENSEMBLES.row(
    "ensemble-step-incomplete",
    "must specify 'step' for ensemble '{model}'",
    what="The ensemble has no steps.",
    where=at_field("ensemble_scheduling"),
    todo='Write ensemble_scheduling { step { model_name: "…" model_version: -1 input_map { … } '
    "output_map { … } } }.",
)
ENSEMBLES.row(
    "ensemble-step-incomplete",
    "must specify 'model_name' in step {step:int} of ensemble '{model}'",
    what="Step {step} (the first is 0) of the ensemble has no model_name.",
    where=_at_step,
    todo='Write model_name: "…".',
)
ENSEMBLES.row(
    "ensemble-step-incomplete",
    "must specify '{field}' in step {step:int} of ensemble '{model}'",
    what="Step {step} (the first is 0) of the ensemble has no {field}.",
    where=_at_step,
    todo='Write {field} { key: "MODEL\'S NAME" value: "ENSEMBLE\'S" }.',
)
ENSEMBLES.row(
    "ensemble-tensor-twice",
    "ensemble tensor '{name}' can appear in an output map only once",
    what='Two steps give the tensor "{name}".',
    where=_at_last_output,
    todo="Name one of them otherwise, and use that name in the steps after it.",
)
ENSEMBLES.row(
    "ensemble-without-steps",
    "ensemble scheduling must be set for ensemble {model:word} whose",
    what="An ensemble needs ensemble_scheduling.",
    where=at_field("platform"),
    todo='Write ensemble_scheduling { step [ { model_name: "…" model_version: -1 … } ] }.',
)
ENSEMBLES.row(
    "ensemble-platform",
    "ensemble scheduling cannot be set for model '{model}' whose platform is not ensemble",
    what="Only an ensemble may have ensemble_scheduling.",
    where=at_field("backend", "platform", "ensemble_scheduling"),
    todo='Write platform: "ensemble" in its place; an ensemble has no backend.',
)


@ENSEMBLES.rule(
    "ensemble-member-missing", "contains models that are not available or ambiguous: {names:rest}"
)
def ensemble_member_missing(evidence: Evidence, said: Said) -> Advice:
    """Deploy the member first, or correct its name."""
    name = said["names"].rstrip('";. ').split(",")[0].strip()
    if (advice := unbuilt(evidence.folder.parent / name)) is not None:
        return advice
    known = evidence.neighbours()
    if name in known:
        return Advice(
            f"The ensemble's model {name} cannot be loaded itself.",
            f"{name}/{CONFIG}",
            f"Load {name} alone first: its own error says what is wrong with it.",
        )
    meant = near(name, known)
    return Advice(
        f"The ensemble uses a model that the repository does not have: {name}.",
        _at_member(evidence, name),
        f'Write model_name: "{meant}".' if meant else f"Deploy {name} first, then the ensemble.",
    )


@ENSEMBLES.rule(
    "ensemble-member-failed",
    "ensemble '{model}' depends on '{member}' which has no loaded version. Model '{other}' "
    "loading failed with error: {why:rest}",
    "ensemble '{model}' depends on '{member}' which has no loaded version",
)
def ensemble_member_failed(evidence: Evidence, said: Said) -> Advice:
    """Correct the member first."""
    member = said["member"]
    if (advice := unbuilt(evidence.folder.parent / member)) is not None:
        return advice
    why = said.get("why", "").rpartition("UNAVAILABLE state: ")[2].rstrip("; ")
    return Advice(
        f"The ensemble's model {member} did not load{f' ({why})' if why else ''}.",
        f"{_at_member(evidence, member)}; the mistake is in {member}/",
        f"Load {member} alone and mend it first: its own error says more.",
    )


@ENSEMBLES.rule(
    "ensemble-member-version",
    "ensemble '{model}' depends on '{member}' whose required version {version:int} is not loaded",
)
def ensemble_member_version(evidence: Evidence, said: Said) -> Advice:
    """Write model_version: -1, or a version that the member serves."""
    step = _member(evidence, said["member"])
    return Advice(
        f"The ensemble uses version {said['version']} of {said['member']}, which is not served.",
        evidence.at(f"{step.path}.model_version", step.path) if step else CONFIG,
        "Write model_version: -1 (the latest), or a version that is there and that the model's "
        "version_policy serves.",
    )


@ENSEMBLES.rule(
    "ensemble-map",
    "ensemble tensor {tensor:word} is mapping to non-existing {kind:word} {name:word} in model "
    "{member:word}",
    "ensemble tensor {tensor:word} is mapped from non-existing {kind:word} {name:word} in model "
    "{member:word}",
    "ensemble tensor {tensor:word} is mapping to non-existing {kind:word}  in model {member:word}",
    "ensemble tensor {tensor:word} is mapped from non-existing {kind:word}  in model {member:word}",
)
def ensemble_map(evidence: Evidence, said: Said) -> Advice:
    """Write the member's own name as the key of the map."""
    kind, name, member = said["kind"], said.get("name", ""), said["member"]
    names = _names(evidence.folder.parent / member, kind)
    meant = near(name, names) or (names[0] if len(names) == 1 else "")
    for field in _map_fields(evidence, f"{kind}_map"):
        section = field.value
        if isinstance(section, Message) and section.text("key") == name:
            where = show(field)
            break
    else:
        where = _at_member(evidence, member)
    if not name:
        return Advice(
            f'The {kind}_map of the tensor "{said["tensor"]}" has no key.',
            where,
            f'Write key: "{meant}", the {kind} of the model {member}.'
            if meant
            else f"Write key: and an {kind} of the model {member} ({listed(names, 'or')}).",
        )
    swapped = name in evidence.tensor_names(kind) and said["tensor"] in names
    return Advice(
        f'The model {member} has no {kind} "{name}"'
        + (f"; it has {listed(names)}." if names else "."),
        where,
        "Swap key and value: the key is the model's name for it, the value the ensemble's."
        if swapped
        else f'Write key: "{meant}".'
        if meant
        else f"The key is the model's own name for the {kind}.",
    )


@ENSEMBLES.rule(
    "ensemble-shape",
    "ensemble tensor {tensor:word} inconsistent shape: [{one:rest}] is inferred from model "
    "{first:word} while [{two:rest}] is inferred from model {second:word}",
)
def ensemble_shape(evidence: Evidence, said: Said) -> Advice:
    """Give the tensor the same dims on both sides."""
    return _inconsistent(
        evidence, said, "dims", f"[{said['one']}]", f"[{said['two']}]", "its -1 in front included"
    )


@ENSEMBLES.rule(
    "ensemble-data-type",
    "ensemble tensor {tensor:word} inconsistent data type: {one:word} is inferred from model "
    "{first:word} while {two:word} is inferred from model {second:word}",
)
def ensemble_data_type(evidence: Evidence, said: Said) -> Advice:
    """Give the tensor the same data type on both sides."""
    return _inconsistent(evidence, said, "data_type", said["one"], said["two"], "")


def _inconsistent(
    evidence: Evidence, said: Said, field: str, one: str, two: str, note: str
) -> Advice:
    tensor, first, second = said["tensor"].rstrip(":"), said["first"], said["second"]
    if evidence.model in (first, second):
        kind = "input" if tensor in evidence.tensor_names("input") else "output"
        own, theirs = (one, two) if first == evidence.model else (two, one)
        other = second if first == evidence.model else first
        batched = evidence.value("max_batch_size", "0") != "0" and theirs.startswith("[-1")
        value = theirs.replace("[-1,", "[", 1) if batched else theirs
        return Advice(
            f'The ensemble gives its {kind} "{tensor}" as {own}, the model {other} as {theirs}'
            + (f" ({note})." if note and batched else "."),
            evidence.at_tensor(kind, tensor, field),
            f"Write {field}: {value} in the ensemble (or mend {other}).",
        )
    fields = [f for f, value in _maps(evidence, "input_map") if value.text == tensor]
    return Advice(
        f'The tensor "{tensor}" leaves {first} as {one} and enters {second} as {two}.',
        show(fields[0]) if fields else evidence.at("ensemble_scheduling"),
        f"Make the two models agree, or put one between them that converts {one} to {two}.",
    )


@ENSEMBLES.rule(
    "ensemble-batch",
    "ensemble {model:word} allows maximum batch size {size:int}, but it contains model "
    "{member:word} which only allows maximum batch size to be {limit:int}",
)
def ensemble_batch(evidence: Evidence, said: Said) -> Advice:
    """Write at most the smallest max_batch_size of the members."""
    return Advice(
        f"The ensemble takes batches of {said['size']}, its model {said['member']} at most "
        f"{said['limit']}.",
        evidence.at("max_batch_size"),
        f"Write max_batch_size: {said['limit']}, or raise it in {said['member']}."
        if said["limit"] != "0"
        else f"Write max_batch_size: 0, or let {said['member']} batch.",
    )


ENSEMBLES.row(
    "ensemble-circle",
    "circular dependency between ensembles: {path:rest}",
    what="The ensemble contains itself.",
    where=lambda evidence, said: _at_member(evidence, evidence.model),
    todo="Name another model in that step.",
)


def _steps(evidence: Evidence) -> list[Field]:
    return [
        f
        for f in evidence.config.walk()
        if f.name == "step" and f.path.startswith("ensemble_scheduling")
    ]


def _member(evidence: Evidence, name: str) -> Field | None:
    for step in _steps(evidence):
        if isinstance(step.value, Message) and step.value.text("model_name") == name:
            return step
    return None


def _at_member(evidence: Evidence, name: str) -> str:
    step = _member(evidence, name)
    path = step.path if step else "ensemble_scheduling"
    return evidence.at(f"{path}.model_name", path)


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
    """What to do about an entry of a map that has no value; None where each has one.

    Triton reads the entry as one for a tensor without a name. What it then refuses is the tensor
    that the entry was meant for.
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
    """The one tensor that no step takes (for an input_map) or gives; "" if it is not just one."""
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
