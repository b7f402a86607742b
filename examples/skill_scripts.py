"""A model reads a skill and runs its scripts in the sandbox.

Run it: `python examples/skill_scripts.py`. It needs Linux and bubblewrap.
"""

import asyncio
from pathlib import Path

from wieldy import Toolbox
from wieldy.tools.code import add_code_tools
from wieldy.tools.skills import add_skills

SKILLS = Path(__file__).with_name("skills")
TABLE = "open('sales.csv', 'w').write('day,price\\n1,9.50\\n2,12.25\\n') and None"


async def main() -> None:
    # A person is asked before code runs; here all of it is allowed.
    async with Toolbox(permission_mode="bypass") as box:
        add_code_tools(box)
        add_skills(box, SKILLS)
        session = box.view(session="ann")
        steps = await session.call("read_skill", {"skill": "csv-report"})
        print(steps.unwrap().splitlines()[0])
        # The scripts work in the folder of the code tools.
        await session.call("run_python", {"code": TABLE})
        for script, *arguments in (
            ["make_report.py", "sales.csv", "price"],
            ["check.sh", "report.md"],
        ):
            call = {"skill": "csv-report", "script": f"scripts/{script}", "arguments": arguments}
            done = await session.call("run_skill_script", call)
            print(done.text.splitlines()[-1])


asyncio.run(main())
# > # Report on a CSV file
# > 2 rows, 21.75 in total.
# > report.md is complete
