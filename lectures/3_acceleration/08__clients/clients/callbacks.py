"""Callbacks: `async_infer` returns at once, and another thread brings each answer."""

import threading

import tritonclient.grpc as grpc


def callbacks(address, model, pictures, under_way, names=("image", "logits")):
    """Send pictures, at most `under_way` at once; return answers, an error in the place of one."""
    answers, free = [None] * len(pictures), threading.Semaphore(under_way)

    def send(number):
        def keep(result, error):  # in a thread of the library: be short, raise nothing
            answers[number] = error or result.as_numpy(names[1])
            free.release()

        tensor = grpc.InferInput(names[0], pictures[number].shape, "FP32")
        client.async_infer(model, [tensor.set_data_from_numpy(pictures[number])], keep)

    with grpc.InferenceServerClient(address) as client:
        for number in range(len(pictures)):
            free.acquire()  # waits while `under_way` requests have no answer
            send(number)
        for _ in range(under_way):  # until all are back
            free.acquire()
    return answers
