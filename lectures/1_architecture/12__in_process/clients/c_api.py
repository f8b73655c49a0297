"""One request through Triton's C API. core("Name", …) calls the function TRITONSERVER_Name."""

import ctypes
import queue

FP32, CPU = 11, 0  # TRITONSERVER_TYPE_FP32 and TRITONSERVER_MEMORY_CPU
NEWEST = ctypes.c_int64(-1)  # of the model's versions
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)
in_use = {}  # what Triton reads and calls until it has released a request


def infer(core, server, model, name, array):
    """Ask a model that has one input, a contiguous fp32 array. Its outputs, arrays by name."""
    responses, released = queue.SimpleQueue(), queue.SimpleQueue()
    on_response = CALLBACK(lambda response, flags, own: responses.put(response))
    on_release = CALLBACK(lambda request, flags, own: released.put(request))

    # 1. A request names a model, and an input: its type, its shape, and where it lies in memory.
    request = core.new("InferenceRequestNew", server, model.encode(), NEWEST)
    shape, dims = (ctypes.c_int64 * array.ndim)(*array.shape), ctypes.c_uint64(array.ndim)
    data, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
    device = ctypes.c_int64(0)
    core("InferenceRequestAddInput", request, name.encode(), FP32, shape, dims)
    core("InferenceRequestAppendInputData", request, name.encode(), data, size, CPU, device)

    # 2. Whom Triton calls: for memory for the outputs, with the response, and when it needs the
    #    request no more.
    core("InferenceRequestSetResponseCallback", request, core.allocator, None, on_response, None)
    core("InferenceRequestSetReleaseCallback", request, on_release, None)

    # 3. Send it. The call returns at once: the core works in threads of its own.
    try:
        core("ServerInferAsync", server, request, None)
    except Exception:
        core("InferenceRequestDelete", request)  # refused: it is still ours
        raise
    in_use[request.value] = on_response, on_release, array
    response = ctypes.c_void_p(responses.get())
    released.get()
    core("InferenceRequestDelete", request)
    del in_use[request.value]

    # 4. Read the response.
    try:
        core("InferenceResponseError", response)  # raises the model's error, if there is one
        return core.outputs(response)
    finally:
        core("InferenceResponseDelete", response)
