"""A long wire, as between two cities: bytes take some ms each way."""

import asyncio
import subprocess
import sys
from contextlib import contextmanager


@contextmanager
def far(address, ms):
    """The address of the wire's near end; `address` is at its far end, `ms` away."""
    command = [sys.executable, __file__, address, str(ms)]  # in a process of its own
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as relay:
        try:
            yield relay.stdout.readline().strip()
        finally:
            relay.terminate()


async def main(target, ms):
    async def carry(reader, writer):
        later = asyncio.get_running_loop().call_later
        while data := await reader.read(1 << 16):
            later(ms / 1000, writer.write, data)
        later(ms / 1000, writer.close)

    async def accept(reader, writer):
        await asyncio.sleep(2 * ms / 1000)  # a connection is open after one round trip
        back, there = await asyncio.open_connection(*target.rsplit(":", 1))
        await asyncio.gather(carry(reader, there), carry(back, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__" and sys.argv[1:]:  # in the process that `far` starts
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
