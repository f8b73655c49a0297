"""Send files that need not fit into memory: python send_folder.py MODEL UNDER_WAY FILE.npy ..."""

import asyncio
import os
import sys

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

model, under_way, *files = sys.argv[1:]
left = iter(files)  # for all workers


async def worker(client, name):
    for file in left:
        array = np.load(file)
        tensor = grpc.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        try:
            result = await client.infer(model, [tensor.set_data_from_numpy(array)])
            print(file, *result.get_response().outputs[0].shape)
        except InferenceServerException as error:
            print(file, error.message()[:60])


async def main():
    address = os.environ.get("TRITON_GRPC", "localhost:8001")
    async with grpc_aio.InferenceServerClient(address) as client:
        name = (await client.get_model_metadata(model)).inputs[0].name
        await asyncio.gather(*(worker(client, name) for _ in range(int(under_way))))


asyncio.run(main())
