"""Callbacks and shared memory: a request carries the name of a region in place of its numbers."""

import os
import queue
import time

import tritonclient.grpc as grpc
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException


def regions(address, model, pictures, under_way, names=("image", "logits"), count=None):
    """As `callbacks`. `count`: how many regions, by default one for each request under way."""
    answers, free, size = [None] * len(pictures), queue.SimpleQueue(), pictures[0].nbytes

    def send(number):
        name, region = free.get()  # waits until a region is free
        shm.set_shared_memory_region(region, [pictures[number]])

        def keep(result, error):
            answers[number] = error or result.as_numpy(names[1])
            free.put((name, region))  # answered: the next picture may be written here

        tensor = grpc.InferInput(names[0], pictures[number].shape, "FP32")
        tensor.set_shared_memory(name, size)
        client.async_infer(model, [tensor], keep)

    with grpc.InferenceServerClient(address) as client:
        own = {}
        for name in (f"clients-{os.getpid()}-{n}" for n in range(count or under_way)):
            own[name] = shm.create_shared_memory_region(name, f"/{name}", size)
            client.register_system_shared_memory(name, f"/{name}", size)
        for place in range(under_way):
            free.put(list(own.items())[place % len(own)])
        for number in range(len(pictures)):
            send(number)
        for _ in range(under_way):
            free.get()
        for name, region in own.items():
            unregister(client, name)
            shm.destroy_shared_memory_region(region)
    return answers


def unregister(client, name):
    """The server lets go of a region a moment after its answer; until then it refuses."""
    for tries_left in reversed(range(200)):
        try:
            client.unregister_system_shared_memory(name)
            break
        except InferenceServerException:
            if not tries_left:
                raise
            time.sleep(0.01)
