"""A long wire: python far.py ADDRESS MS. It prints its own address; bytes take MS each way."""

import asyncio
import sys

target, seconds = sys.argv[1], float(sys.argv[2]) / 1000


async def carry(reader, writer):
    later = asyncio.get_running_loop().call_later
    while data := await reader.read(1 << 16):
        later(seconds, writer.write, data)
    later(seconds, writer.close)


async def accept(reader, writer):
    await asyncio.sleep(2 * seconds)  # a connection is open after one round trip
    back, there = await asyncio.open_connection(*target.rsplit(":", 1))
    await asyncio.gather(carry(reader, there), carry(back, writer))


async def main():
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


asyncio.run(main())
