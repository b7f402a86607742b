"""Start Chromium as a process that can do little: a program that Playwright runs in its place.

Arguments: the control socket, the uid to run as (-1 for the present one), the port of the proxy,
the browser, and the arguments that Playwright gives it. Only the standard library is imported,
because this file is run by itself, without the package and without the user's modules.

Where the system allows it, Chromium gets a network of its own, in which there is nothing but a
listening socket that is sent to the proxy, and a `/tmp` of its own, which vanishes with it.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_PRIVATE_SPACE = b"mode=1777,size=512m"
_PROFILE = "--user-data-dir="
_BACKLOG = 64


def main() -> None:
    """Become the browser."""
    control, uid, port, browser, *arguments = sys.argv[1:]
    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(control)
        listener = _open_network(int(port), int(uid))
        # A browser that was put into `/tmp` would be hidden with the rest of it.
        private = listener is not None and not browser.startswith("/tmp/") and _hide_files()
        home = _choose_home(arguments, private, int(uid))
        arguments = [each for each in arguments if not each.startswith(_PROFILE)]
        facts = f"{os.getpid()} {int(listener is not None)}".encode()
        socket.send_fds(link, [facts], [] if listener is None else [listener.fileno()])
    if listener is not None:
        listener.close()
    if int(uid) >= 0:
        _drop_root(int(uid))
    # The kernel forgets this when the user changes, so it is said after that.
    _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    os.environ["HOME"] = os.environ["TMPDIR"] = home
    os.chdir(home)
    os.execv(browser, [browser, f"{_PROFILE}{home}/profile", *arguments])


def _open_network(port: int, uid: int) -> socket.socket | None:
    """Leave the network for an empty one; the socket on which the proxy listens there."""
    if not sys.platform.startswith("linux"):
        return None
    # A system may allow the first step and refuse the next, and there is no way back. So a
    # child tries them first.
    child = os.fork()
    if child == 0:
        try:
            _listen_alone(port, uid)
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(child, 0)[1] != 0:
        return None
    return _listen_alone(port, uid)


def _listen_alone(port: int, uid: int) -> socket.socket:
    kinds = _CLONE_NEWNET | _CLONE_NEWNS
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(kinds if uid >= 0 else kinds | _CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "no network of its own")
    if uid < 0:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    listener = socket.socket()
    fcntl.ioctl(listener, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


def _hide_files() -> bool:
    """Put an empty folder of limited size over `/tmp`, seen by this process and its children."""
    mount = ctypes.CDLL(None, use_errno=True).mount
    if mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        return False
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    return bool(mount(b"tmpfs", b"/tmp", b"tmpfs", flags, _PRIVATE_SPACE) == 0)


def _choose_home(arguments: list[str], private: bool, uid: int) -> str:
    """The folder that the browser may write to: in its own `/tmp`, or the one Playwright made."""
    given = next(each[len(_PROFILE) :] for each in arguments if each.startswith(_PROFILE))
    home = "/tmp/home" if private else given
    os.makedirs(home, mode=0o700, exist_ok=True)
    if uid >= 0:
        os.chown(home, uid, uid)
    return home


def _drop_root(uid: int) -> None:
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        sys.exit(f"root can't become another user here ({error}); run as a user that is not root")


def _control_process(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
