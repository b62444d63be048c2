"""A TCP proxy that cuts connections at the worst moment: when a commit or a charge is on its way, or its reply is.

`python -m tools.faults.proxy LISTEN SERVER SEED SHARE` runs until its input closes, then prints how often it cut.
"""

from __future__ import annotations

import asyncio
import random
import sys

SIGNS = (b"COMMIT", b"FROM charge(")
CHUNK = 65_536
BEFORE, AFTER = "before", "after"


class Cutter:
    """Decides about each message to the server, from a seed."""

    def __init__(self, seed: int, share: float) -> None:
        self._chance = random.Random(seed)
        self._share = share
        self.cuts = 0

    def decide(self, message: bytes) -> str | None:
        """Cut before the message reaches the server, after it did but before the reply, or not at all."""
        if not any(sign in message for sign in SIGNS) or self._chance.random() >= self._share:
            return None
        self.cuts += 1
        return self._chance.choice((BEFORE, AFTER))


async def serve(listen: int, server: int, cutter: Cutter) -> None:
    """Forwards connections until standard input closes."""

    async def client_came(inward: asyncio.StreamReader, outward: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", server)
        except OSError:
            outward.close()
            return
        replies = asyncio.ensure_future(_forward(from_server, outward))
        try:
            while message := await inward.read(CHUNK):
                fate = cutter.decide(message)
                if fate == AFTER:
                    replies.cancel()
                if fate != BEFORE:
                    to_server.write(message)
                    await to_server.drain()
                if fate is not None:
                    break
        except OSError:
            pass
        finally:
            outward.close()
            # The server may still be at work on what it got: its end of the connection closes in its own time.
            to_server.close()

    listening = await asyncio.start_server(client_came, "127.0.0.1", listen)
    async with listening:
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while content := await reader.read(CHUNK):
            writer.write(content)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def main(listen: int, server: int, seed: int, share: float) -> None:
    """The command."""
    cutter = Cutter(seed, share)
    asyncio.run(serve(listen, server, cutter))
    print(cutter.cuts, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
