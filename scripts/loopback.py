"""Bring up the loopback device of a new network namespace, then become the command given."""

import fcntl
import os
import socket
import struct
import sys

GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
    request = struct.pack("16sh14x", b"lo", 0)
    _, flags = struct.unpack("16sh14x", fcntl.ioctl(device, GET_FLAGS, request))
    fcntl.ioctl(device, SET_FLAGS, struct.pack("16sh14x", b"lo", flags | UP))
os.execvp(sys.argv[1], sys.argv[1:])
