"""fastmcp: a proxy in front of a server, `fastmcp_proxy.py PORT URL`."""

import sys
from importlib import import_module

if __name__ == "__main__":
    port, url = sys.argv[1:]
    proxy = import_module("fastmcp.server").create_proxy(url)
    proxy.run("http", host="127.0.0.1", port=int(port), show_banner=False, log_level="ERROR")
