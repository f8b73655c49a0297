"""Triton's core inside this process: its in-process C API, called through ctypes.

    core = Core()
    with core.environment():
        options = core.new("ServerOptionsNew")
        core("ServerOptionsSetModelRepositoryPath", options, b"/models")
        server = core.new("ServerNew", options)
    core.infer(server, "square", {"INPUT": np.ones((1, 4), np.float32)})    # {"OUTPUT": …}
    core.json("ServerModelConfig", server, b"square", NEWEST, 1)            # its config as a dict
    core("ServerDelete", server)

The functions have the names of `tritonserver.h` (triton-inference-server/core, folder
`include/triton/core`), without the prefix `TRITONSERVER_`. An error that a function returns is
raised as a ServerError. The library is the one that `tritonserver` itself is linked to.

A program that also uses gRPC must turn off gRPC's own preparation for forks before it imports it
(`GRPC_ENABLE_FORK_SUPPORT=false`); this package does so when it is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.errors import ServerError
from . import assemble

PREFIX = "TRITONSERVER_"
#: TRITONSERVER_DataType → numpy type; BYTES and BF16 have none.
TYPES = {code: np.dtype(name) for code, name in enumerate("?BHILbhilefd", start=1)}
CPU, NEWEST = 0, -1  # TRITONSERVER_MEMORY_CPU, and the number that asks for the newest version

_P, _SIZE, _I64, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int
_RELEASE_REQUEST = ctypes.CFUNCTYPE(None, _P, ctypes.c_uint32, _P)
_RESPONSE = ctypes.CFUNCTYPE(None, _P, ctypes.c_uint32, _P)
_ALLOCATE = ctypes.CFUNCTYPE(
    _P, _P, ctypes.c_char_p, _SIZE, _INT, _I64, _P, _P, _P, ctypes.POINTER(_INT),
    ctypes.POINTER(_I64),
)  # fmt: skip
_RELEASE = ctypes.CFUNCTYPE(_P, _P, _P, _P, _SIZE, _INT, _I64)


class Core:
    """The library of Triton's core, loaded into this process; this file's docstring has an example.

    Attributes:
        allocator: the pointer to two functions that the core calls, for memory for an output, and
            when it is no longer needed.

    Raises:
        ServerError: the library or one that it needs cannot be loaded.
    """

    def __init__(self) -> None:
        self.place = assemble.find()
        self.path = assemble.core(self.place.libraries[-1])
        self._library = _load(self.path)
        self._kept: dict[
            int, tuple[Any, ...]
        ] = {}  # memory that a request points to, until it is done
        self._buffers: dict[int, Any] = {}
        self._callbacks = (_ALLOCATE(self._allocate), _RELEASE(self._release))
        self.allocator = self.new("ResponseAllocatorNew", *self._callbacks, None)

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call `TRITONSERVER_<name>`, a function that returns an error, or null without one.

        Raises:
            ServerError: it returned an error.
        """
        function = self._function(name)
        function.restype = _P
        self._raise(function(*arguments))

    def new(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function whose first argument receives a pointer, and return that pointer."""
        pointer = _P()
        self(name, ctypes.byref(pointer), *arguments)
        return pointer

    def yes(self, name: str, *arguments: Any) -> bool:
        """Call a function whose last argument receives a bool, and return it."""
        answer = ctypes.c_bool()
        self(name, *arguments, ctypes.byref(answer))
        return answer.value

    def json(self, name: str, *arguments: Any) -> Any:
        """Call a function whose last argument receives a TRITONSERVER_Message; return its JSON."""
        message = _P()
        self(name, *arguments, ctypes.byref(message))
        text, size = ctypes.c_void_p(), _SIZE()
        self("MessageSerializeToJson", message, ctypes.byref(text), ctypes.byref(size))
        content = ctypes.string_at(text.value or 0, size.value)
        self("MessageDelete", message)
        return json.loads(content)

    def version(self) -> tuple[int, int]:
        """The version of the C API as (major, minor). It is not the version of Triton."""
        major, minor = ctypes.c_uint32(), ctypes.c_uint32()
        self("ApiVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def infer(
        self,
        server: ctypes.c_void_p,
        model: str,
        inputs: Mapping[str, npt.NDArray[Any]],
        timeout: float = 60.0,
    ) -> dict[str, npt.NDArray[Any]]:
        """Send one request and return its response (InferenceRequestNew … ServerInferAsync).

        Args:
            server: the pointer that `ServerNew` gave.
            model: the model's name; its newest version answers, with one response.
            inputs: arrays by name; numbers and bools only.
            timeout: seconds to wait for the response.

        Returns:
            The outputs by name.

        Raises:
            ServerError: the server refused, or did not answer in time.
        """
        arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        responses: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        released: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        respond = _RESPONSE(lambda response, flags, own: responses.put(response))
        release = _RELEASE_REQUEST(lambda request, flags, own: released.put(request))
        request = self.new("InferenceRequestNew", server, model.encode(), _I64(NEWEST))
        try:
            for name, array in arrays.items():
                self._add(request, name.encode(), array)
            self("InferenceRequestSetReleaseCallback", request, release, None)
            self("InferenceRequestSetResponseCallback",
                 request, self.allocator, None, respond, None)  # fmt: skip
            self("ServerInferAsync", server, request, None)
        except BaseException:
            self("InferenceRequestDelete", request)
            raise
        self._kept[request.value or 0] = (respond, release, arrays)
        try:
            response = _P(responses.get(timeout=timeout))
            released.get(timeout=timeout)
        except queue.Empty:
            raise ServerError(f"{model} did not answer within {timeout:.0f} s.") from None
        self("InferenceRequestDelete", request)
        del self._kept[request.value or 0]
        try:
            self("InferenceResponseError", response)
            return self.outputs(response)
        finally:
            self("InferenceResponseDelete", response)

    def outputs(self, response: ctypes.c_void_p) -> dict[str, npt.NDArray[Any]]:
        """Copy a response's outputs into arrays, by name."""
        count = ctypes.c_uint32()
        self("InferenceResponseOutputCount", response, ctypes.byref(count))
        found = {}
        for index in range(count.value):
            name, base, own = ctypes.c_char_p(), _P(), _P()
            dtype, kind, device = _INT(), _INT(), _I64()
            shape, dims, size = ctypes.POINTER(_I64)(), ctypes.c_uint64(), _SIZE()
            fields = (name, dtype, shape, dims, base, size, kind, device, own)
            self("InferenceResponseOutput", response, index, *map(ctypes.byref, fields))
            content = ctypes.string_at(base.value or 0, size.value)
            array = np.frombuffer(content, TYPES[dtype.value])
            found[(name.value or b"").decode()] = array.reshape(shape[: dims.value])
        return found

    @contextlib.contextmanager
    def environment(self) -> Iterator[None]:
        """Set PATH and LD_LIBRARY_PATH so that Python models find this Python and its packages.

        A process inherits them when it starts, so make the server and load models inside the block.
        """
        former = {name: os.environ.get(name) for name in ("PATH", "LD_LIBRARY_PATH")}
        path = [str(Path(sys.executable).parent), former["PATH"] or os.defpath]
        os.environ["PATH"] = os.pathsep.join(path)
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, self.place.libraries))
        try:
            yield
        finally:
            for name, value in former.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    # -- calls and callbacks --------------------------------------------------------------------

    def _function(self, name: str) -> Any:
        return self._library[PREFIX + name]

    def _raise(self, error: int | None) -> None:
        if error is None:
            return
        parts = []
        for name in ("ErrorCodeString", "ErrorMessage"):
            function = self._function(name)
            function.restype = ctypes.c_char_p
            parts.append(function(_P(error)).decode())
        delete = self._function("ErrorDelete")
        delete.restype = None
        delete(_P(error))
        raise ServerError(": ".join(parts))

    def _add(self, request: ctypes.c_void_p, name: bytes, array: npt.NDArray[Any]) -> None:
        """Add an input to a request; it points to the array's memory, nothing is copied."""
        shape = (_I64 * array.ndim)(*array.shape)
        dtype = next((code for code, own in TYPES.items() if own == array.dtype), None)
        if dtype is None:
            raise ServerError(
                f"Arrays of {array.dtype} cannot be sent.",
                where=f"input {name.decode()}",
                todo="Give numbers or bools. Strings (BYTES) are not supported here.",
            )
        self("InferenceRequestAddInput", request, name, dtype, shape, ctypes.c_uint64(array.ndim))
        self("InferenceRequestAppendInputData",
             request, name, _P(array.ctypes.data), _SIZE(array.nbytes), CPU, _I64(0))  # fmt: skip

    def _allocate(
        self, allocator: int, name: bytes, size: int, kind: int, device: int, own: int,
        buffer: int, own_of_buffer: int, actual_kind: Any, actual_device: Any,
    ) -> None:  # fmt: skip
        """Called by the core: allocate a buffer for one output."""
        memory = ctypes.create_string_buffer(max(size, 1))
        address = ctypes.addressof(memory)
        self._buffers[address] = memory
        _P.from_address(buffer).value = address
        _P.from_address(own_of_buffer).value = None
        actual_kind[0], actual_device[0] = CPU, 0

    def _release(
        self, allocator: int, buffer: int, own: int, size: int, kind: int, device: int
    ) -> None:
        self._buffers.pop(buffer, None)


def _load(path: Path) -> ctypes.CDLL:
    """Load the library, after the libraries beside it that it needs.

    The system's loader searches LD_LIBRARY_PATH as it was when this process started. A library that
    is loaded already is not searched for. So this function tries all libraries again and again,
    until each of them is loaded.
    """
    waiting = [p for p in sorted(path.parent.glob("*.so*")) if "libpython" not in p.name]
    while waiting:
        late = []
        for library in waiting:
            try:
                ctypes.CDLL(str(library))
            except OSError as error:
                late.append(library)
                reason = error
        if len(late) == len(waiting):
            raise ServerError(f"Triton's library cannot be loaded: {reason}", where=str(path))
        waiting = late
    return ctypes.CDLL(str(path))
