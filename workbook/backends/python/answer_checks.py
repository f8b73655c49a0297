"""Checks what a Python model of the reader's own answers, before it leaves the model's process.

Triton's Python backend takes some answers that nobody can use. A model whose `execute` returns
None is never heard of again: its requests wait for ever, and it cannot be unloaded meanwhile. An
output of another type than the config declares is sent as it is, and an output that the config
does not have is left out without a word. Clients, ensembles and other models rely on the config.
The laptop server refuses such answers with an error that names the line.

How it gets there: `server/assemble.py` copies this file beside Triton's own
`triton_python_backend_utils.py` and adds two lines to that one, which call `install`. Each
process of a Python model (the "stub") imports that module while or after it imports the model's
file, and before it asks the file for the class `TritonPythonModel`. It is then given a subclass
whose `initialize` reads the config and whose `execute` checks the answer. Stand-ins (Python-based
backends) are not checked. `workbook serve --plain` leaves all of this out.

This file runs in the Python of the model's own environment, where the package `workbook` may not
be installed: it imports only what every stub has.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import c_python_backend_utils as stub
import numpy as np
import triton_python_backend_utils as pb_utils

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_RESPONSES = "one pb_utils.InferenceResponse for each request, in their order"


class ModelMistake(Exception):
    """An answer that does not reach the client as the config promises.

    The text has three parts, which `workbook.server.explain` takes apart again:

        execute returned None, so 2 requests would wait for ever.
        where: 1/model.py, line 9: def execute(self, requests):
        to do: End execute with `return responses`: …
    """

    def __init__(self, what: str, where: str, todo: str) -> None:
        super().__init__(f"{what}\nwhere: {where}\nto do: {todo}")


class Model:
    """The one model of this process: its file, and from `initialize` on its config.

    Attributes:
        file: the model's Python file.
        inputs: the names of all tensors that a request to it may carry; None before `initialize`.
        outputs: the config's outputs with their numpy types; None for a type that numpy lacks
            (BF16), which is not compared.
        decoupled: whether it answers through response senders alone.
        settled: the ids of the requests that this call of `execute` answers otherwise than by
            returning a response: those whose response sender it asked for, and those that it wants
            scheduled again.
        missing: an input that `execute` has asked for in this call though the config does not have
            it, and the place; None where there is none.
        absent: what is wrong where `execute` has asked for an output that another model's response
            does not have; None where it has not.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        # As it is now: it may be edited while the model is served.
        self._source = file.read_text("utf-8", errors="replace")
        self.inputs: set[str] | None = None
        self.outputs: dict[str, np.dtype[Any] | None] = {}
        self.decoupled = False
        self.settled: set[int] = set()
        self.missing: tuple[str, str] | None = None
        self.absent: ModelMistake | None = None
        self._warming = False
        self._warmups = 0
        self._types: dict[str, str] = {}

    def configure(self, config: dict[str, Any]) -> None:
        """Read the config that `initialize` gets, as `/v2/models/M/config` shows it."""
        sequences = config.get("sequence_batching") or {}
        self.inputs = {entry["name"] for entry in config.get("input", [])}
        self.inputs.update(entry["name"] for entry in sequences.get("control_input", []))
        self.inputs.update(entry["input_name"] for entry in sequences.get("state", []))
        for entry in config.get("batch_input", []):
            self.inputs.update(entry["target_name"])
        self._types = {e["name"]: e["data_type"] for e in config.get("output", [])}
        self._types |= {e["output_name"]: e["data_type"] for e in sequences.get("state", [])}
        self.outputs = {name: _dtype(kind) for name, kind in self._types.items()}
        samples = [s for s in config.get("model_warmup", []) if s.get("batch_size")]
        self._warmups = sum(s.get("count") or 1 for s in samples)
        self.decoupled = bool(pb_utils.using_decoupled_model_transaction_policy(config))

    def begin(self) -> None:
        """Forget the last call of `execute`; the first calls after the load are warm-ups."""
        self.settled.clear()
        self.missing = None
        self.absent = None
        self._warming = self._warmups > 0
        if self._warming:
            self._warmups -= 1

    # -- the checks -----------------------------------------------------------------------------

    def check(self, answer: Any, requests: Sequence[Any]) -> Any:
        """What `execute` returned, with an error in place of each response that is wrong.

        Args:
            answer: the returned object.
            requests: what `execute` was given.
        """
        if self.decoupled:  # must be None, which the stub checks
            return answer
        wrong = self._mistake(answer, requests)
        if wrong is not None:  # a response of its own for each: one is sent once
            return [
                None
                if id(request) in self.settled
                else self.failure(wrong, stub.InferenceResponse([]))
                for request in requests
            ]
        for i, response in enumerate(answer or ()):
            if response is not None:
                try:
                    self.check_response(response)
                except ModelMistake as mistake:
                    answer[i] = self.failure(mistake, response)
        return answer

    def failure(self, mistake: ModelMistake, warm: Any) -> Any:
        """The response that tells a client of a mistake, which is logged as well.

        Args:
            warm: what to answer in a warm-up. Triton 24.10 may crash where a warm-up fails, so the
                model is loaded, as without the checks, and its clients get the error.
        """
        message = f"{type(mistake).__name__}: {mistake}"
        stub.Logger.log_error(message)
        return warm if self._warming else stub.InferenceResponse([], stub.TritonError(message))

    def _mistake(self, answer: Any, requests: Sequence[Any]) -> ModelMistake | None:
        """What is wrong with the list of responses as a whole; None where it is right."""
        if answer is None:
            waiting = [request for request in requests if id(request) not in self.settled]
            if not waiting:
                return None
            return self._silent(
                f"execute returned None, so {_requests(waiting)} would wait for ever."
            )
        if not isinstance(answer, list):
            return ModelMistake(
                f"execute returned {_a(answer)}, not a list.",
                self._at_return(),
                f"Return a list: {_RESPONSES}.",
            )
        if len(answer) != len(requests):
            return ModelMistake(
                f"execute got {_requests(requests)} and returned {len(answer)} "
                f"response{'' if len(answer) == 1 else 's'}.",
                self._at_return(),
                "Move `return` out of the loop over the requests, to the end of execute."
                if self._returns_inside_loop()
                else f"Return {_RESPONSES}: the batcher may hand over several at once.",
            )
        for response, request in zip(answer, requests, strict=True):
            if response is None:
                if id(request) not in self.settled:
                    return self._silent(
                        "execute returned None in place of a response, so that request would wait "
                        "for ever."
                    )
            elif not isinstance(response, stub.InferenceResponse):
                return ModelMistake(
                    f"execute returned {_a(response)} in place of a response.",
                    self._at_return(),
                    "Return [pb_utils.InferenceResponse([pb_utils.Tensor(name, array)]), …]: "
                    f"{_RESPONSES}.",
                )
        return None

    def check_response(self, response: Any, where: str = "") -> None:
        """Compare the outputs of one response with the config.

        Args:
            response: an InferenceResponse.
            where: the place to name where the output's own line is not found.

        Raises:
            ModelMistake: an output has another name or type than the config declares.
        """
        outputs = self.outputs
        for tensor in response.output_tensors():
            name = tensor.name()
            if name not in outputs:
                raise ModelMistake(
                    f'The model answers with an output "{name}", which its config does not have.',
                    self._at_tensor(name) or where or self._at_return(),
                    f"The config's outputs are {', '.join(outputs) or 'none'}: use such a name, or "
                    "add the output to config.pbtxt.",
                )
            wanted = outputs[name]
            if wanted is None:
                continue
            try:
                dtype = tensor.as_numpy().dtype
            except stub.TritonModelException:  # it lies in the memory of a GPU
                continue
            if dtype is wanted or dtype == wanted:  # nearly always the same object
                continue
            if (dtype.kind, wanted.kind) != ("S", "O"):  # both are text
                raise self._wrong_type(name, dtype, where)

    def note_missing(self, name: str, request: Any, caller: types.FrameType) -> None:
        """Note that the model was given None for an input, if its config does not have it.

        A request that the model itself has made for another model may carry any input.
        """
        if self.inputs is None or name in self.inputs:  # not sent: the input is optional
            return
        if all(tensor.name() in self.inputs for tensor in request.inputs()):
            self.missing = name, self.at_caller(caller)

    def explain(self, error: Exception) -> ModelMistake | None:
        """What to raise in place of an error of `execute`; None where it should stay as it is.

        A model may ask for an input that it perhaps has, and Triton gives it None; so it does for
        an output of another model's response. Where that None made `execute` fail, the message
        names the input, or gives the error of the response.
        """
        if "'NoneType'" not in str(error):
            return None
        if self.absent is not None:
            return self.absent
        if self.missing is None:
            return None
        name, where = self.missing
        return ModelMistake(
            f'The model asks for an input "{name}", which its config does not have.',
            where,
            f"The config's inputs are {', '.join(sorted(self.inputs or ())) or 'none'}: use such a "
            "name, or add the input to config.pbtxt.",
        )

    def _silent(self, what: str) -> ModelMistake:
        return ModelMistake(
            what, self._at_return(none=True), f"End execute with `return responses`: {_RESPONSES}."
        )

    def _wrong_type(self, name: str, dtype: np.dtype[Any], where: str) -> ModelMistake:
        kinds = [kind for kind in pb_utils.TRITON_STRING_TO_NUMPY if _dtype(kind) == dtype]
        wanted = self._types[name]
        convert = np.dtype(pb_utils.triton_string_to_numpy(wanted)).type.__name__
        return ModelMistake(
            f'The output "{name}" is {dtype}, and the config says {wanted}.',
            self._at_tensor(name) or where or self._at_return(),
            f"Write array.astype(np.{convert}) there, or data_type: {kinds[0]} in config.pbtxt.",
        )

    # -- where ----------------------------------------------------------------------------------

    def at(self, line: int, file: str | Path | None = None) -> str:
        """A line in words: `1/model.py, line 9: return responses`."""
        path = self.file if file is None else Path(file)
        folder = self.file.parent.parent
        shown = path.relative_to(folder) if path.is_relative_to(folder) else path
        if path == self.file:
            source = self._source
        else:
            try:
                source = path.read_text("utf-8", errors="replace")
            except OSError:
                source = ""
        lines = source.splitlines()
        code = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return f"{shown}, line {line}" + (f": {code}" if code else "")

    def at_caller(self, frame: types.FrameType) -> str:
        """The line that a frame is at."""
        return self.at(frame.f_lineno, frame.f_code.co_filename)

    @functools.cached_property
    def _tree(self) -> ast.Module:
        try:
            return ast.parse(self._source)
        except SyntaxError:  # of another Python than this file's: cannot be, it was imported
            return ast.Module([], [])

    @functools.cached_property
    def _execute(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The definition of `execute` in the model's file; None where it is inherited."""
        classes = [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel"
        ]
        for member in (member for node in classes for member in node.body):
            if isinstance(member, _FUNCTION) and member.name == "execute":
                return member
        return None

    def _at_return(self, *, none: bool = False) -> str:
        """The `return` of `execute` that the answer came from where it is certain, else its def.

        Args:
            none: it returned None.
        """
        execute = self._execute
        if execute is None:
            return f"{self.file.parent.name}/{self.file.name}, execute"
        returns = list(_returns(execute))
        bare = [r for r in returns if r.value is None or _is_none(r.value)]
        if none and not isinstance(execute.body[-1], ast.Return | ast.Raise):
            return self.at(execute.lineno)  # it may have come to its end
        named = bare or returns if none else [r for r in returns if r not in bare]
        return self.at(named[0].lineno if len(named) == 1 else execute.lineno)

    def _returns_inside_loop(self) -> bool:
        """Whether a `return` of `execute` ends its loop over the requests in the first round."""
        execute = self._execute
        loops = [n for n in ast.walk(execute) if isinstance(n, ast.For)] if execute else []
        return any(isinstance(loop.body[-1], ast.Return) for loop in loops)

    def _at_tensor(self, name: str) -> str:
        """The one line that makes a tensor of this name; "" where there is none, or several."""
        lines = {
            call.lineno
            for call in ast.walk(self._tree)
            if isinstance(call, ast.Call)
            and (getattr(call.func, "attr", "") or getattr(call.func, "id", "")) == "Tensor"
            and call.args
            and isinstance(call.args[0], ast.Constant)
            and call.args[0].value == name
        }
        return self.at(lines.pop()) if len(lines) == 1 else ""


def install() -> None:
    """Have the class of this process's model checked; nothing in the process of a stand-in."""
    # In a copy of the fork server there are spaces between the words. The paths have none.
    words = Path("/proc/self/cmdline").read_text().replace("\0", " ").split()
    file, runtime = Path(words[1]), words[-1]
    if runtime != "DEFAULT":  # a Python-based backend's own folder
        return
    module = sys.modules.get(f"{file.parent.name}.{file.stem}")
    if module is None:
        return
    model = Model(file)
    subclass = functools.cache(lambda theirs: _subclass(theirs, model))

    class Checked(types.ModuleType):
        """The model's module: whoever asks it for the class gets the checked one.

        The name inside the module stays the reader's own class, as `super(…)` there needs it.
        """

        @property
        def TritonPythonModel(self) -> Any:
            if "TritonPythonModel" not in vars(self):
                raise AttributeError
            return subclass(vars(self)["TritonPythonModel"])

    module.__class__ = Checked
    _watch_requests(model)
    _watch_senders(model)
    _watch_inputs(model)
    _watch_outputs(model)


def _subclass(theirs: Any, model: Model) -> Any:
    """A class like the reader's own whose `initialize` and `execute` are checked."""
    if not isinstance(theirs, type):
        return theirs

    def initialize(self: Any, args: dict[str, str]) -> None:
        model.configure(json.loads(args["model_config"]))
        own = getattr(super(checked, self), "initialize", None)
        if own is not None:
            own(args)

    def execute(self: Any, requests: list[Any]) -> Any:
        model.begin()
        try:
            answer = super(checked, self).execute(requests)
        except (AttributeError, TypeError) as error:
            if (mistake := model.explain(error)) is None:
                raise
            raise mistake from None
        if inspect.iscoroutine(answer):
            return answer if model.decoupled else awaited(answer, requests)
        return model.check(answer, requests)

    async def awaited(answer: Any, requests: list[Any]) -> Any:
        try:
            returned = await answer
        except (AttributeError, TypeError) as error:
            if (mistake := model.explain(error)) is None:
                raise
            raise mistake from None
        return model.check(returned, requests)

    members: dict[str, Any] = {"initialize": initialize}
    if hasattr(theirs, "execute"):  # else the stub says that it is missing
        members["execute"] = execute
    members |= {name: getattr(theirs, name) for name in ("__module__", "__qualname__", "__doc__")}
    checked: Any = type(theirs)(theirs.__name__, (theirs,), members)
    return checked


def _watch_requests(model: Model) -> None:
    """Note which requests `execute` answers otherwise than by returning a response."""
    request = stub.InferenceRequest
    for name in ("get_response_sender", "set_release_flags"):
        method = getattr(request, name)

        def noting(self: Any, *args: Any, method: Any = method, **named: Any) -> Any:
            model.settled.add(id(self))
            return method(self, *args, **named)

        setattr(request, name, functools.wraps(method)(noting))


def _watch_senders(model: Model) -> None:
    """Let a response sender send an error in place of a response that the config forbids."""
    theirs = stub.InferenceResponseSender.send

    @functools.wraps(theirs)
    def send(self: Any, response: Any = None, flags: int = 0) -> Any:
        if isinstance(response, stub.InferenceResponse):
            try:
                model.check_response(response, model.at_caller(sys._getframe(1)))
            except ModelMistake as mistake:
                response = model.failure(mistake, response)
        return theirs(self, response, flags)

    stub.InferenceResponseSender.send = send


def _watch_inputs(model: Model) -> None:
    """Note where `get_input_tensor_by_name` is asked for an input that the model cannot have."""
    theirs = pb_utils.get_input_tensor_by_name

    @functools.wraps(theirs)
    def get_input_tensor_by_name(inference_request: Any, name: str) -> Any:
        found = theirs(inference_request, name)
        if found is None:
            model.note_missing(name, inference_request, sys._getframe(1))
        return found

    pb_utils.get_input_tensor_by_name = get_input_tensor_by_name


def _watch_outputs(model: Model) -> None:
    """Note where `get_output_tensor_by_name` is asked for an output that a response lacks."""
    theirs = pb_utils.get_output_tensor_by_name

    @functools.wraps(theirs)
    def get_output_tensor_by_name(inference_response: Any, name: str) -> Any:
        found = theirs(inference_response, name)
        if found is None and isinstance(inference_response, stub.InferenceResponse):
            model.absent = _absent(name, inference_response, model.at_caller(sys._getframe(1)))
        return found

    pb_utils.get_output_tensor_by_name = get_output_tensor_by_name


def _absent(name: str, response: Any, where: str) -> ModelMistake:
    """What to raise where a response of another model has no output of this name."""
    if response.has_error():
        message = " ".join(response.error().message().partition("\n")[0].split())
        return ModelMistake(
            f"A model answered with an error that this code does not look at: {message}",
            where,
            "Look at each response before its tensors: `if response.has_error(): raise "
            "pb_utils.TritonModelException(response.error().message())`.",
        )
    names = ", ".join(tensor.name() for tensor in response.output_tensors()) or "none"
    return ModelMistake(
        f'The response of another model has no output "{name}"; its outputs are {names}.',
        where,
        "Use such a name there; requested_output_names of the InferenceRequest says which outputs "
        "the response holds.",
    )


def _dtype(kind: str) -> np.dtype[Any] | None:
    """The numpy type of an array for a tensor of this type; None where numpy lacks it."""
    if kind not in pb_utils.TRITON_STRING_TO_NUMPY:
        return None
    return np.dtype(pb_utils.triton_string_to_numpy(kind))


def _returns(function: ast.AST) -> Iterator[ast.Return]:
    """The `return` statements of a function, not those of functions inside it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, _FUNCTION | ast.Lambda):
            yield from _returns(node)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _requests(requests: Sequence[Any]) -> str:
    return f"{len(requests)} request{'' if len(requests) == 1 else 's'}"


def _a(value: Any) -> str:
    return f"an object of type {type(value).__name__}"
