"""An interpreter, packages and a project in some place of the system, where a test runs code."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.machine import require
from tests.tools.code.conftest import PATIENCE
from tests.tools.code.groups import DelegatedGroup

USER = 23_456
# A file in each folder on the way, which no program in the sandbox may see.
CANARY = "canary-of-the-host"
_SOURCE = Path(__file__).parents[3] / "src"
_PROGRAM = os.path.basename(os.path.realpath(sys.executable))
_SCRIPT = "import sys, pydantic\nprint('greeted by', sys.argv[1])\n"
# In mounts of its own: the rest of the system does not notice. What is to be shown is first put
# where no checkout lies, because the place may be above the checkout.
_SHOW = """
set -eu
top=$1 place=$2 base=$3 packages=$4 source=$5 version=$6 program=$7 script=$8 groups=$9
shift 9
exec 9< "${groups:-/}"
mount -t tmpfs none /sys
if [ -n "$groups" ]; then
    mkdir /sys/groups
    mount --bind /proc/self/fd/9 /sys/groups
fi
exec 9<&-
mkdir /sys/base /sys/packages /sys/source
mount --bind "$base" /sys/base
mount --bind "$packages" /sys/packages
mount --bind "$source" /sys/source
mount -t tmpfs -o mode=1777 none "$top"
case $place in
    */link/*) mkdir "$top/real"; ln -s real "$top/link";;
esac
environment=$place/project/environment
mkdir -p "$environment/bin" "$environment/lib/$version/site-packages" "$place/project/src"
mount --bind /sys/packages "$environment/lib/$version/site-packages"
mount --bind /sys/source "$place/project/src"
if [ "$base" != /usr ]; then
    base=$place/python
    mkdir "$base"
    mount --bind /sys/base "$base"
fi
echo "home = $base/bin" > "$environment/pyvenv.cfg"
ln -s "$base/bin/$program" "$environment/bin/python"
if [ "$place" = "${place#* }" ]; then
    printf '#!%s\\n%s' "$environment/bin/python" "$script" > "$environment/bin/greet"
else
    # What pip writes there.
    printf '#!/bin/sh\\n'\\'\\'\\''exec'\\'' "%s" "$0" "$@"\\n'\\'' '\\'\\'\\''\\n%s' \\
        "$environment/bin/python" "$script" > "$environment/bin/greet"
fi
chmod 755 "$environment/bin/greet"
touch "$top/{canary}" "$place/{canary}" "$place/project/{canary}"
# The interpreter may name its own library by the path where it was built.
export LD_LIBRARY_PATH="$base/lib" PYTHONPATH="$place/project/src"
cd /
exec "$@" "$environment/bin/python" -c "$(cat)"
""".replace("{canary}", CANARY)


def run_in_place(
    top: str, place: str, code: str, ordinary: bool, group: DelegatedGroup | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program with an environment and a project in a place that was not there before.

    Args:
        top: A folder of the system, which has nothing else in it for the program.
        place: The place below that folder.
        code: The program.
        ordinary: Whether to run it as somebody who is not root. If the tests are not run by
            root, they never are.
        group: The cgroup that it is in. Without one it finds none that it could use.
    """
    require("the sandbox")
    require("mounts")
    is_root = os.geteuid() == 0
    own = ["--mount", "--propagation", "private"]
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    if not is_root:
        # The mounts need rights that only the namespace has, and the program has none of them.
        own += ["--map-current-user", "--keep-caps"]
        become = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all"]
    enter = f'echo $$ > "{group.own}/cgroup.procs"; exec "$@"' if group else 'exec "$@"'
    return subprocess.run(
        [
            *("sh", "-c", enter, "sh"),
            *("unshare", *own),
            *("sh", "-c", _SHOW, "sh", top, f"{top}/{place}", os.path.realpath(sys.base_prefix)),
            *(sysconfig.get_path("purelib"), str(_SOURCE)),
            *(f"python3.{sys.version_info.minor}", _PROGRAM, _SCRIPT),
            str(group.mount) if group else "",
            *(become if ordinary or not is_root else ()),
        ],
        input=code,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
