"""Give the package a readme whose links work where the repository is not: in an index, in a wheel.

A link into the repository leads to its public address: the one that `pyproject.toml`
names, or else the one that the clone came from. While the repository has none, a link
to a page names the command that shows the page from the installed package, and other
links become plain text.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_PAGE = re.compile(r"docs/(?P<name>[\w/-]+)\.md(?:#.*)?$")
# The line that leads from one language to the other.
_LANGUAGE = re.compile(r"^\[[^\]]+\]\(README[\w.-]*\)\n\n", re.MULTILINE)


# What `git clone` takes of a repository on another machine. A name without a dot is a machine of
# one's own, and is nothing to publish.
_CLONED = re.compile(
    r"(?:https?://|ssh://)?(?:[^@/]*@)?(?P<host>[\w-]+(?:\.[\w-]+)+)(?::\d+)?[:/](?P<path>[\w./~-]+)"
)


class PackageMetadata(MetadataHookInterface):
    """Fills in the readme and the addresses of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add what is known when the package is built."""
        named = str(self.config.get("repository", "")).rstrip("/")
        repository = named or public_address(_read_origin(Path(self.root)))
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        readme = package_readme(text, repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
        metadata["urls"] = project_urls(repository)


def public_address(origin: str) -> str:
    """The address that a browser opens, without a user's name or password; "" if there is none."""
    found = _CLONED.fullmatch(origin.strip())
    if found is None:
        return ""
    path = found["path"].strip("/").removesuffix(".git")
    return f"https://{found['host']}/{path}" if path else ""


def _read_origin(root: Path) -> str:
    """Where the clone came from, as git has it."""
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "config", "--get", "remote.origin.url"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout


def project_urls(repository: str) -> dict[str, str]:
    """The addresses of the project, as far as it has any."""
    if not repository:
        return {}
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/main/docs/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
    }


def package_readme(text: str, repository: str) -> str:
    """The readme with every relative link replaced."""

    def replaced(found: re.Match[str]) -> str:
        if "://" in found["target"]:
            return found[0]
        if repository:
            kind = "raw" if found["image"] else "blob"
            address = f"{repository}/{kind}/main/{found['target']}"
            return f"{found['image']}[{found['text']}]({address})"
        page = _PAGE.match(found["target"])
        named = f" (`wieldy docs {page['name']}`)" if page else ""
        return "" if found["image"] else found["text"] + named

    plain = text if repository else _LANGUAGE.sub("", text)
    parts = _FENCED.split(plain)
    # Code stands at the odd places, and is left as it is.
    return "".join(
        part if number % 2 else _LINK.sub(replaced, part) for number, part in enumerate(parts)
    )
