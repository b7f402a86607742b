"""Let a model compute and draw: its code runs in a sandbox, and the picture comes back.

It needs Linux and bubblewrap (`apt-get install bubblewrap`).
"""

import asyncio

from wieldy import Image, Toolbox
from wieldy.tools.code import add_code_tools

DRAW = """
import struct, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

rows = b"".join(b"\\0" + bytes((x * y) % 256 for x in range(64)) for y in range(64))
head = struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)
with open("product.png", "wb") as file:
    file.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head))
    file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
sum(range(101))
"""
SPY = "open('/etc/shadow').read()"


async def main() -> None:
    """Run code as a model would send it; whoever owns this program has allowed that."""
    async with Toolbox() as box:
        add_code_tools(box, timeout=20, memory="200MB")
        box.rules.allow("run_python")

        drawn = await box.call("run_python", {"code": DRAW})
        pictures = [block for block in drawn.content if isinstance(block, Image)]
        print("value:", drawn.value.stdout.strip())
        print("pictures:", [picture.mime_type for picture in pictures])

        spied = await box.call("run_python", {"code": SPY})
        print("spy:", spied.value.stderr.splitlines()[-1])

        endless = await box.call("run_shell", {"command": "sleep 1000"})
        print("shell:", endless.status)


asyncio.run(main())
# > value: 5050
# > pictures: ['image/png']
# > spy: FileNotFoundError: [Errno 2] No such file or directory: '/etc/shadow'
# > shell: pending
