"""What axe-core finds on a page."""

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.async_api import Page


@cache
def _read_script() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")


async def find_faults(page: Page) -> list[Any]:
    """The rules that a page breaks and that shut people out, each with some of its elements."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_read_script())
    # What an element passes is only counted, which takes much less time.
    found = await page.evaluate("axe.run({ resultTypes: ['violations'], selectors: false })")
    return [
        (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
