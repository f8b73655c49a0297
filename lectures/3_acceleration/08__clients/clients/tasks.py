"""asyncio: a task per picture, and the event loop goes on with another one while a task waits."""

import asyncio

import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
from tritonclient.utils import InferenceServerException


async def tasks(address, model, pictures, under_way, names=("image", "logits")):
    """Send pictures, at most `under_way` at once; return answers, an error in the place of one."""
    free = asyncio.Semaphore(under_way)

    async def ask(picture):
        tensor = grpc.InferInput(names[0], picture.shape, "FP32")
        async with free:
            try:
                result = await client.infer(model, [tensor.set_data_from_numpy(picture)])
            except InferenceServerException as error:
                return error  # it stands in the place of the answer
        return result.as_numpy(names[1])

    async with grpc_aio.InferenceServerClient(address) as client, asyncio.TaskGroup() as group:
        sent = [group.create_task(ask(picture)) for picture in pictures]
    return [task.result() for task in sent]
