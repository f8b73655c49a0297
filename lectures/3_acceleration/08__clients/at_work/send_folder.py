"""Send files that need not fit into memory: python send_folder.py MODEL UNDER_WAY FILE.npy ..."""

import asyncio
import os
import sys
import time

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
from tritonclient.utils import np_to_triton_dtype

model, under_way, *files = sys.argv[1:]
left = iter(files)  # all workers take from it


async def worker(client, name, output):
    for file in left:
        try:
            array = await asyncio.to_thread(np.load, file)  # the others go on
            tensor = grpc.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
            result = await client.infer(model, [tensor.set_data_from_numpy(array)])
            answer = result.as_numpy(output)  # an array: use it or store it here
            print(file, *answer.shape)
        except Exception as error:  # of a file or a request: the other files go on
            print(file, str(error)[:100])


async def main():
    address = os.environ.get("TRITON_GRPC", "localhost:8001")
    async with grpc_aio.InferenceServerClient(address) as client:
        about = await client.get_model_metadata(model)
        names = about.inputs[0].name, about.outputs[0].name
        began = time.perf_counter()
        await asyncio.gather(*(worker(client, *names) for _ in range(int(under_way))))
        print(f"{len(files) / (time.perf_counter() - began):.0f} files per second")


asyncio.run(main())
