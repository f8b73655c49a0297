"""Check the answers of a Python model, before they leave the model's process.

Triton's Python backend sends nearly every answer of a model. It sends outputs with another type or
shape than the config says, and it leaves out outputs that the config does not have. But clients,
ensembles and other models rely on the config. The laptop server answers as NVIDIA's container does.
In addition, it writes one warning for each fault into its log: what is wrong, in which line, and
what to do. `server/model_warnings.py` reads these warnings. `workbook serve --strict` refuses such
answers.

Some answers leave a client waiting for ever, or end the server. They are always refused:

- `execute` returned None, or None in place of a response, for a request that nothing else answers;
- a response sender is deleted before it has sent a final response;
- `execute` fails after a response sender has sent the final response of a model that is not
  decoupled: Triton 24.10 then deletes the request's response factory twice, and ends;
- a tensor has fewer dimensions than the `reshape` of its output: Triton 24.10 reads beyond them.

How this file is run: `server/assemble.py` copies it beside Triton's own
`triton_python_backend_utils.py`, and adds two lines to that module, which call `install`. Each
process of a Python model (the "stub") imports that module while or after it imports the model's
file, and before it asks the file for the class `TritonPythonModel`. The stub then gets a subclass.
Its `initialize` also reads the config, and its `execute` checks the answer. Stand-ins (Python-based
backends) are not checked. `workbook serve --plain` leaves all of this out.

This file runs in the Python of the model's own environment, where the package `workbook` may not
be installed. So it imports only modules that every stub has.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import json
import os
import sys
import traceback
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import c_python_backend_utils as stub
import numpy as np
import triton_python_backend_utils as pb_utils

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_RESPONSES = "one pb_utils.InferenceResponse for each request, in their order"
_FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
#: The environment variable that is set for `workbook serve --strict`.
_STRICT = "WORKBOOK_STRICT"


class ModelMistake(Exception):
    """An answer that the client does not get, or not as the config says.

    The text has three parts, which `workbook.server.explain` takes apart again:

        execute returned None, so 2 requests would wait for ever.
        where: 1/model.py, line 9: def execute(self, requests):
        to do: End execute with `return responses`: …
    """

    def __init__(self, what: str, where: str, todo: str) -> None:
        super().__init__(f"{what}\nwhere: {where}\nto do: {todo}")
        self.parts = what, where, todo


class Call:
    """One call of `execute`.

    Attributes:
        settled: the ids of the requests that need no returned response: the model has asked for
            their response sender, or they are to be scheduled again.
        over: the ids of the requests that have got their final response from a sender.
        senders: the senders that the model has asked for.
        left: the senders that the model has deleted without a final response.
        missing: an input that the model has asked for, and that the config does not have; with the
            place in the code.
        absent: the mistake that the model asked for an output which another model's response lacks.
        is_warming: whether it is a warm-up.
        has_ended: whether `execute` has returned or failed.
    """

    def __init__(self, *, is_warming: bool = False) -> None:
        self.settled: set[int] = set()
        self.over: set[int] = set()
        self.senders: weakref.WeakSet[Sender] = weakref.WeakSet()
        self.left: list[Sender] = []
        self.missing: tuple[str, str] | None = None
        self.absent: ModelMistake | None = None
        self.is_warming = is_warming
        self.has_ended = False

    def leave_to_stub(self) -> None:
        """Leave all requests to Triton's stub, which sends an error and closes their senders."""
        for sender in (*self.senders, *self.left):
            sender.is_over = True
        self.left.clear()


class Sender:
    """Wraps a response sender: it checks each response, and ends a request that the model forgets.

    If the sender is deleted before the final response, no code of the model can send that response
    any more, and the client would wait for ever. So the wrapper then sends it.

    Attributes:
        request: the id of its request.
        place: the line and the file where the model asked for it; None if the model did not.
        is_over: whether there is nothing more to send.
    """

    def __init__(self, real: Any, model: Model, request: int) -> None:
        self._real, self._model, self._call = real, model, model.call
        self._has_sent = False
        self.request = request
        self.place: tuple[int, str] | None = None
        self.is_over = request in model.call.over

    def send(self, response: Any = None, flags: int = 0) -> None:
        """As `InferenceResponseSender.send`."""
        if isinstance(response, stub.InferenceResponse):
            caller = sys._getframe(1)
            try:
                self._model.check_response(response, lambda: self._model.at_caller(caller))
            except ModelMistake as mistake:
                response = self._model.failure(mistake, response)
        self._real.send(response, flags)
        self._has_sent = True
        if flags == _FINAL:
            self.is_over = True
            self._call.over.add(self.request)

    def is_cancelled(self) -> bool:
        """As `InferenceResponseSender.is_cancelled`."""
        return bool(self._real.is_cancelled())

    def finish(self) -> None:
        """End the request, with an error if a response can still be sent."""
        response = None
        if self._model.decoupled or not self._has_sent:
            response = self._model.failure(
                self._model.given_up(self.place), stub.InferenceResponse([])
            )
        else:  # the request cannot get a second response
            self._model.warn("given up", self._model.given_up, self.place, always=True)
        with contextlib.suppress(stub.TritonModelException):  # the real sender has been closed
            self._real.send(response, _FINAL)
        self.is_over = True

    def __del__(self) -> None:
        if self.is_over or sys.is_finalizing():
            return
        if self._call.has_ended or self._model.decoupled:
            self.finish()
        else:  # `execute` may still return a response
            self._call.left.append(self)


class Model:
    """The model of this process: its file and, after `initialize`, its config.

    Attributes:
        file: the model's Python file.
        inputs: the names of all tensors that a request to it may have; None before `initialize`.
        outputs: the config's outputs with their numpy types; None for a type that numpy lacks
            (BF16), which is not compared.
        decoupled: whether it answers only through response senders.
        call: the latest call of `execute`.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        # The text is read now, since the file may be edited while the model is served.
        self._source = file.read_text("utf-8", errors="replace")
        self.inputs: set[str] | None = None
        self.outputs: dict[str, np.dtype[Any] | None] = {}
        self.decoupled = False
        self.call = Call()
        self._name, self._version = "", ""
        self._is_strict = _STRICT in os.environ
        self._warned: set[str] = set()
        self._warmups = 0
        self._types: dict[str, str] = {}
        self._dims: dict[str, list[int]] = {}
        self._reshaped: set[str] = set()
        self._batch_dims = 0

    def configure(self, args: dict[str, str]) -> None:
        """Read the config from the arguments of `initialize`, as `/v2/models/M/config` shows it."""
        self._name, self._version = args["model_name"], args["model_version"]
        config: dict[str, Any] = json.loads(args["model_config"])
        sequences = config.get("sequence_batching") or {}
        self.inputs = {entry["name"] for entry in config.get("input", [])}
        self.inputs.update(entry["name"] for entry in sequences.get("control_input", []))
        self.inputs.update(entry["input_name"] for entry in sequences.get("state", []))
        for entry in config.get("batch_input", []):
            self.inputs.update(entry["target_name"])
        self._types = {e["name"]: e["data_type"] for e in config.get("output", [])}
        self._types |= {e["output_name"]: e["data_type"] for e in sequences.get("state", [])}
        self.outputs = {name: _dtype(kind) for name, kind in self._types.items()}
        self._batch_dims = int(config.get("max_batch_size", 0) > 0)
        scattered = {n for entry in config.get("batch_output", []) for n in entry["target_name"]}
        for entry in config.get("output", []):
            if entry["name"] not in scattered:  # such an output has the rows of a whole batch
                reshape = entry.get("reshape")
                dims = entry.get("dims", []) if reshape is None else reshape.get("shape", [])
                self._dims[entry["name"]] = [int(dim) for dim in dims]
                if reshape is not None:
                    self._reshaped.add(entry["name"])
        samples = [s for s in config.get("model_warmup", []) if s.get("batch_size")]
        self._warmups = sum(s.get("count") or 1 for s in samples)
        self.decoupled = bool(pb_utils.using_decoupled_model_transaction_policy(config))

    def begin(self) -> Call:
        """A new call of `execute`; the first calls after the load are warm-ups."""
        self.call = Call(is_warming=self._warmups > 0)
        self._warmups -= self.call.is_warming
        return self.call

    # -- the checks -----------------------------------------------------------------------------

    def check(self, answer: Any, requests: Sequence[Any], call: Call) -> Any:
        """Check the object that `execute` returned; replace each refused response by an error.

        Args:
            answer: the returned object.
            requests: what `execute` was given.
            call: this call.
        """
        call.has_ended = True
        if self.decoupled:  # must be None, which the stub checks
            return answer
        if (hangs := self._silence(answer, requests, call)) is not None:
            return self._fail_all(lambda: self.failure(hangs, stub.InferenceResponse([])),
                                  requests, call)  # fmt: skip
        if (wrong := self._mistake(answer, requests)) is not None:
            if call.over or self._is_strict:
                return self._fail_all(lambda: self.failure(wrong, stub.InferenceResponse([])),
                                      requests, call)  # fmt: skip
            kind = "list" if not isinstance(answer, list) else len(answer) == len(requests)
            self.warn(f"returned {kind}", lambda: wrong)
            call.leave_to_stub()
            return answer
        answers = dict(zip(map(id, requests), answer or (), strict=False))
        for sender in (*call.senders, *call.left):
            sender.is_over = sender.is_over or answers.get(sender.request) is not None
        self._finish_left(call)
        for i, response in enumerate(answer or ()):
            if response is not None:
                try:
                    self.check_response(response, request=requests[i])
                except ModelMistake as mistake:
                    answer[i] = self.failure(mistake, response)
        return answer

    def fail(self, error: BaseException, requests: Sequence[Any], call: Call) -> list[Any] | None:
        """The responses to return after `execute` has failed; None to raise the error again.

        Triton's stub answers all requests of the call with the error. If a sender has sent a final
        response, and the model is not decoupled, that would end Triton 24.10.
        """
        call.has_ended = True
        if self.decoupled or not call.over:
            call.leave_to_stub()
            return None
        places = traceback.extract_tb(error.__traceback__)[::-1]
        words = f"{type(error).__name__}: {error}"
        message = f"Failed to process the request(s) for model '{self._name}', message: {words}"
        message += "\n\nAt:\n" + "".join(f"  {p.filename}({p.lineno}): {p.name}\n" for p in places)
        stub.Logger.log_error(message)
        return self._fail_all(
            lambda: stub.InferenceResponse([], stub.TritonError(message)), requests, call
        )

    def failure(self, mistake: ModelMistake, warm: Any) -> Any:
        """Log a mistake; returns the response that reports it to a client.

        Args:
            warm: the response in a warm-up. Triton 24.10 may crash if a warm-up fails. So the model
                is loaded, as without the checks, and its clients get the error.
        """
        message = f"{type(mistake).__name__}: {mistake}"
        stub.Logger.log_error(message)
        if self.call.is_warming:
            return warm
        return stub.InferenceResponse([], stub.TritonError(message))

    def warn(
        self, fault: str, made: Callable[..., ModelMistake], *given: Any, always: bool = False
    ) -> None:
        """Write a warning about an answer into the server's log, once for each fault.

        The text goes to the standard output, which is the log, in one piece and before the answer.

        Args:
            fault: a key that identifies the fault.
            made: called with `given` if the fault is new; it finds the place in the code, and
                returns the mistake.
            always: warn in a strict server, too.

        Raises:
            ModelMistake: the server is strict.
        """
        if self._is_strict and not always:
            raise made(*given)
        if fault in self._warned:
            return
        self._warned.add(fault)
        what, where, todo = (" ".join(part.split()) for part in made(*given).parts)
        line = f"Warning about model '{self._name}', version {self._version}: {what}"
        with contextlib.suppress(OSError):
            os.write(1, f"{line}\nwhere: {where}\nto do: {todo}\n".encode())

    def given_up(self, place: tuple[int, str] | None) -> ModelMistake:
        """The mistake that a request will not get its final response."""
        return ModelMistake(
            "A request is given up before its final response was sent, so its client would wait "
            "for ever.",
            self.at(*place) if place else self._at_return(none=True),
            "Send the last response with flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL; "
            "after the last one, sender.send(flags=…) ends the answer, too.",
        )

    def _fail_all(self, made: Callable[[], Any], requests: Sequence[Any], call: Call) -> list[Any]:
        """Make a response for each request that waits for one; a response can be sent only once."""
        self._finish_left(call)
        return [None if id(request) in call.settled else made() for request in requests]

    def _finish_left(self, call: Call) -> None:
        while call.left:
            sender = call.left.pop()
            if not sender.is_over:
                sender.finish()

    def _silence(self, answer: Any, requests: Sequence[Any], call: Call) -> ModelMistake | None:
        """The mistake by which requests would wait for ever; None if no request would."""
        waiting = [request for request in requests if id(request) not in call.settled]
        todo = f"End execute with `return responses`: {_RESPONSES}."
        if answer is None and waiting:
            return ModelMistake(
                f"execute returned None, so {_requests(waiting)} would wait for ever.",
                self._at_return(none=True),
                todo,
            )
        if not isinstance(answer, list) or len(answer) != len(requests):
            return None
        given = {id(q) for q, r in zip(requests, answer, strict=True) if r is not None}
        if all(id(request) in given for request in waiting):
            return None
        return ModelMistake(
            "execute returned None in place of a response, so that request would wait for ever.",
            self._at_return(none=True),
            todo,
        )

    def _mistake(self, answer: Any, requests: Sequence[Any]) -> ModelMistake | None:
        """The mistake by which Triton's stub refuses the whole list of responses; else None."""
        if answer is None:
            return None
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
        for response in answer:
            if response is not None and not isinstance(response, stub.InferenceResponse):
                return ModelMistake(
                    f"execute returned {_a(response)} in place of a response.",
                    self._at_return(),
                    "Return [pb_utils.InferenceResponse([pb_utils.Tensor(name, array)]), …]: "
                    f"{_RESPONSES}.",
                )
        return None

    def check_response(
        self, response: Any, where: Callable[[], str] | None = None, request: Any = None
    ) -> None:
        """Compare the outputs of one response with the config.

        Args:
            response: an InferenceResponse.
            where: returns the place to name if the line that makes the output is not found.
            request: the request that this response answers, if `execute` returned it.

        Raises:
            ModelMistake: the response would end the server; or the server is strict, and an output
                is not as the config says.
        """
        if response.has_error():
            return
        names = []
        for tensor in response.output_tensors():
            name = tensor.name()
            names.append(name)
            if name not in self.outputs:
                self.warn(f"unknown {name}", self._unknown, name, where)
                continue
            wanted = self.outputs[name]
            if wanted is None:
                continue
            try:
                array = tensor.as_numpy()
            except stub.TritonModelException:  # the tensor is in the memory of a GPU
                continue
            dtype = array.dtype
            same = dtype is wanted or dtype == wanted  # nearly always the same object
            if not same and (dtype.kind, wanted.kind) != ("S", "O"):  # both are text
                self.warn(f"type {name}", self._wrong_type, name, dtype, where)
            self._check_shape(name, array.shape, where, request)
        if len(names) != len(set(names)):
            self.warn("twice", self._twice, names, where)
        if request is not None and self.outputs.keys() >= set(names):  # no output has a wrong name
            for name in request.requested_output_names():
                if name not in names:
                    self.warn(f"missing {name}", self._lacking, name, where)

    def _check_shape(
        self, name: str, shape: tuple[int, ...], where: Callable[[], str] | None, request: Any
    ) -> None:
        dims, batch = self._dims.get(name), self._batch_dims
        if dims is None:
            return
        if len(shape) != batch + len(dims) or any(
            dim not in (-1, size) for dim, size in zip(dims, shape[batch:], strict=True)
        ):
            if name in self._reshaped and len(shape) < batch + len(dims):
                raise self._wrong_shape(name, shape, where)
            self.warn(f"shape {name}", self._wrong_shape, name, shape, where)
        elif batch and request is not None and (inputs := request.inputs()):
            rows = inputs[0].shape()[0]
            if shape[0] != rows:
                self.warn(f"rows {name}", self._wrong_rows, name, shape[0], rows, where)

    def note_missing(self, name: str, request: Any, caller: types.FrameType) -> None:
        """Note that the model got None for an input, if its config does not have this input.

        A request that the model itself has made for another model may have any input.
        """
        if self.inputs is None or name in self.inputs:  # an optional input was not sent
            return
        if all(tensor.name() in self.inputs for tensor in request.inputs()):
            self.call.missing = name, self.at_caller(caller)

    def explain(self, error: BaseException, call: Call) -> None:
        """Add the cause to an error of `execute`, if the cause was a missing tensor.

        Triton returns None if a model asks for an input that the request does not have, or for an
        output that another model's response does not have. If that None made `execute` fail, this
        method adds the input's name, or the error of the response, to the message.
        """
        if "'NoneType'" not in str(error) or not isinstance(error, AttributeError | TypeError):
            return
        mistake = call.absent
        if mistake is None and call.missing is not None:
            name, where = call.missing
            mistake = ModelMistake(
                f'The model asks for an input "{name}", which its config does not have.',
                where,
                f"The config's inputs are {', '.join(sorted(self.inputs or ())) or 'none'}: use "
                "such a name, or add the input to config.pbtxt.",
            )
        if mistake is not None:
            error.args = (f"{error}\n{type(mistake).__name__}: {mistake}",)

    # -- what is wrong ----------------------------------------------------------------------------

    def _unknown(self, name: str, where: Callable[[], str] | None) -> ModelMistake:
        return ModelMistake(
            f'The model answers with an output "{name}", which its config does not have. Triton '
            "leaves it out.",
            self._place(name, where),
            f"The config's outputs are {', '.join(self.outputs) or 'none'}: use such a name, or "
            "add the output to config.pbtxt.",
        )

    def _wrong_type(
        self, name: str, dtype: np.dtype[Any], where: Callable[[], str] | None
    ) -> ModelMistake:
        kinds = [kind for kind in pb_utils.TRITON_STRING_TO_NUMPY if _dtype(kind) == dtype]
        wanted = self._types[name]
        convert = np.dtype(pb_utils.triton_string_to_numpy(wanted)).type.__name__
        return ModelMistake(
            f'The output "{name}" is {dtype}, and the config says {wanted}.',
            self._place(name, where),
            f"Write array.astype(np.{convert}) there, or data_type: {kinds[0]} in config.pbtxt.",
        )

    def _wrong_shape(
        self, name: str, shape: tuple[int, ...], where: Callable[[], str] | None
    ) -> ModelMistake:
        kind = "reshape" if name in self._reshaped else "dims"
        rows = "after the number of rows " * self._batch_dims
        return ModelMistake(
            f'The output "{name}" has the shape {list(shape)}, and by {kind} in the config it is '
            f"{rows}{self._dims[name]}.",
            self._place(name, where),
            f"Give the array that shape there (array.reshape), or correct {kind} in config.pbtxt; "
            "-1 is any size.",
        )

    def _wrong_rows(
        self, name: str, rows: int, wanted: int, where: Callable[[], str] | None
    ) -> ModelMistake:
        return ModelMistake(
            f'The output "{name}" has {rows} rows, and its request has {wanted}.',
            self._place(name, where),
            "With max_batch_size, an answer has a row for each row of its request. Where it has "
            "not, write max_batch_size: 0, and the first dimension into dims.",
        )

    def _twice(self, names: list[str], where: Callable[[], str] | None) -> ModelMistake:
        name = next(name for name in names if names.count(name) > 1)
        return ModelMistake(
            f'A response has the output "{name}" twice.',
            self._place(name, where),
            "Give each tensor of a response a name of its own.",
        )

    def _lacking(self, name: str, where: Callable[[], str] | None) -> ModelMistake:
        return ModelMistake(
            f'A response lacks the output "{name}", which its request asks for.',
            self._place(name, where),
            "Put it into each InferenceResponse, or take it out of config.pbtxt.",
        )

    def _place(self, name: str, where: Callable[[], str] | None) -> str:
        """The line that makes a tensor; else `where`'s place, else the `return` of `execute`."""
        return self._at_tensor(name) or (self._at_return() if where is None else where())

    # -- where ----------------------------------------------------------------------------------

    def at(self, line: int, file: str | Path | None = None) -> str:
        """A line of a file as text: `1/model.py, line 9: return responses`."""
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
        """The line that a frame executes, as text."""
        return self.at(frame.f_lineno, frame.f_code.co_filename)

    @functools.cached_property
    def _tree(self) -> ast.Module:
        try:
            return ast.parse(self._source)
        except SyntaxError:  # it cannot happen: this Python has imported the file
            return ast.Module([], [])

    @functools.cached_property
    def _execute(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The definition of `execute` in the model's file; None if it is inherited."""
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
        """The `return` of `execute` that gave the answer; if that is not certain, its `def` line.

        Args:
            none: whether `execute` returned None.
        """
        execute = self._execute
        if execute is None:
            return f"{self.file.parent.name}/{self.file.name}, execute"
        returns = list(_returns(execute))
        bare = [r for r in returns if r.value is None or _is_none(r.value)]
        if none and not isinstance(execute.body[-1], ast.Return | ast.Raise):
            return self.at(execute.lineno)  # it may have ended without a `return`
        named = bare or returns if none else [r for r in returns if r not in bare]
        return self.at(named[0].lineno if len(named) == 1 else execute.lineno)

    def _returns_inside_loop(self) -> bool:
        """Whether a loop in `execute` ends with a `return`, and so after its first request."""
        execute = self._execute
        loops = [n for n in ast.walk(execute) if isinstance(n, ast.For)] if execute else []
        return any(isinstance(loop.body[-1], ast.Return) for loop in loops)

    def _at_tensor(self, name: str) -> str:
        """The line that makes a tensor of this name; "" if there is no such line, or several."""
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
    """Add the checks to the class of this process's model; do nothing in a stand-in's process."""
    # In a copy of the fork server there are spaces between the words. The paths have no spaces.
    words = Path("/proc/self/cmdline").read_text().replace("\0", " ").split()
    file, runtime = Path(words[1]), words[-1]
    if runtime != "DEFAULT":  # the last word is the folder of a Python-based backend
        return
    module = sys.modules.get(f"{file.parent.name}.{file.stem}")
    if module is None:
        return
    model = Model(file)
    subclass = functools.cache(lambda theirs: _subclass(theirs, model))

    class Checked(types.ModuleType):
        """The model's module. From outside, its attribute TritonPythonModel is the checked class.

        Inside the module the name stays the reader's own class, since `super(…)` there needs it.
        """

        @property
        def TritonPythonModel(self) -> Any:
            if "TritonPythonModel" not in vars(self):
                raise AttributeError
            return subclass(vars(self)["TritonPythonModel"])

    module.__class__ = Checked
    _watch_requests(model)
    _watch_inputs(model)
    _watch_outputs(model)


def _subclass(theirs: Any, model: Model) -> Any:
    """A subclass of the reader's own class that checks `initialize` and `execute`."""
    if not isinstance(theirs, type):
        return theirs

    def initialize(self: Any, args: dict[str, str]) -> None:
        model.configure(args)
        own = getattr(super(checked, self), "initialize", None)
        if own is not None:
            own(args)

    def execute(self: Any, requests: list[Any]) -> Any:
        call = model.begin()
        if model.decoupled:
            _hold_senders(model, requests)
        try:
            answer = super(checked, self).execute(requests)
        except BaseException as error:
            return failed(error, requests, call)
        if inspect.iscoroutine(answer):
            return answer if model.decoupled else awaited(answer, requests, call)
        return model.check(answer, requests, call)

    async def awaited(answer: Any, requests: list[Any], call: Call) -> Any:
        try:
            returned = await answer
        except BaseException as error:
            return failed(error, requests, call)
        return model.check(returned, requests, call)

    def failed(error: BaseException, requests: list[Any], call: Call) -> Any:
        model.explain(error, call)
        answer = model.fail(error, requests, call)
        if answer is None:
            raise error
        return answer

    members: dict[str, Any] = {"initialize": initialize}
    if hasattr(theirs, "execute"):  # if it is missing, the stub reports that
        members["execute"] = execute
    members |= {name: getattr(theirs, name) for name in ("__module__", "__qualname__", "__doc__")}
    checked: Any = type(theirs)(theirs.__name__, (theirs,), members)
    return checked


def _watch_requests(model: Model) -> None:
    """Make requests return a `Sender`, and note the requests that need no returned response."""
    request = stub.InferenceRequest
    get, release = request.get_response_sender, request.set_release_flags
    senders: weakref.WeakValueDictionary[int, Sender] = weakref.WeakValueDictionary()

    @functools.wraps(get)
    def get_response_sender(self: Any) -> Sender:
        real = get(self)
        sender = senders.get(id(real))  # it keeps the real sender alive
        if sender is None:
            sender = senders[id(real)] = Sender(real, model, id(self))
            model.call.senders.add(sender)
        if sender.place is None:
            caller = sys._getframe(1)
            sender.place = caller.f_lineno, caller.f_code.co_filename
        model.call.settled.add(id(self))
        return sender

    @functools.wraps(release)
    def set_release_flags(self: Any, flags: int) -> None:
        release(self, flags)
        model.call.settled.add(id(self))
        if flags == pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE:
            sender = senders.get(id(get(self)))
            if sender is not None:  # the request will be executed again
                sender.is_over = True

    request.get_response_sender = get_response_sender
    request.set_release_flags = set_release_flags


#: The senders of a decoupled model's requests. They are kept as long as the model has the requests.
_held: dict[int, tuple[weakref.ref[Any], Sender]] = {}


def _hold_senders(model: Model, requests: Iterable[Any]) -> None:
    """Hold a sender for each request: if a decoupled model drops the request, it is ended."""
    for request in requests:
        sender = request.get_response_sender()
        sender.place = None
        drop = functools.partial(_drop_sender, id(request))
        _held[id(request)] = weakref.ref(request, drop), sender


def _drop_sender(request: int, _: object) -> None:
    _held.pop(request, None)


def _watch_inputs(model: Model) -> None:
    """Note where the model asks `get_input_tensor_by_name` for an input that it cannot have."""
    theirs = pb_utils.get_input_tensor_by_name

    @functools.wraps(theirs)
    def get_input_tensor_by_name(inference_request: Any, name: str) -> Any:
        found = theirs(inference_request, name)
        if found is None:
            model.note_missing(name, inference_request, sys._getframe(1))
        return found

    pb_utils.get_input_tensor_by_name = get_input_tensor_by_name


def _watch_outputs(model: Model) -> None:
    """Note where the model asks `get_output_tensor_by_name` for an output that a response lacks."""
    theirs = pb_utils.get_output_tensor_by_name

    @functools.wraps(theirs)
    def get_output_tensor_by_name(inference_response: Any, name: str) -> Any:
        found = theirs(inference_response, name)
        if found is None and isinstance(inference_response, stub.InferenceResponse):
            model.call.absent = _absent(name, inference_response, model.at_caller(sys._getframe(1)))
        return found

    pb_utils.get_output_tensor_by_name = get_output_tensor_by_name


def _absent(name: str, response: Any, where: str) -> ModelMistake:
    """The mistake if a response of another model has no output of this name."""
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
    """The numpy type of an array for a tensor of this type; None if numpy lacks it."""
    if kind not in pb_utils.TRITON_STRING_TO_NUMPY:
        return None
    return np.dtype(pb_utils.triton_string_to_numpy(kind))


def _returns(function: ast.AST) -> Iterator[ast.Return]:
    """The `return` statements of a function, without the statements of functions inside it."""
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
