"""Prompts from documents: YAML and JSON files that fill the slots of an agent."""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import getattr_static
from pathlib import Path
from typing import Any, Self

from wieldy.agent.agent import BaseAgent, Mappings
from wieldy.agent.nested_data import fill_name, fill_placeholders, find_values
from wieldy.core.names import listed_names

# What fills prompts and does nothing else; `.alias` calls more only where the program says so.
_FILLING = re.compile(
    "system|developer|input|info|instruct|examples|output|rule|role|user_info|attachment|options"
    r"|set_\w+_prompt"
)
_ALIAS_FORM = '.alias is {"method": {".args": [positional], "name": keyword}}'


class ConfigurePromptExtension(BaseAgent):
    """Reads prompts from documents and writes them back.

    In a document `.agent` is the agent's prompt and `.request` the next request's; text
    alone there is the system message, or the input. `$key` is a slot of the agent, any
    other key one of the request. `.alias` calls the methods of the agent that fill prompts, and
    others only if the program names them.
    """

    def load_yaml_prompt(
        self,
        path_or_content: str | Path,
        mappings: Mappings = None,
        prompt_key_path: str | None = None,
        *,
        encoding: str | None = "utf-8",
        methods: Iterable[str] = (),
    ) -> Self:
        """Fill the slots from a YAML file, or from YAML text.

        Args:
            path_or_content: The path of a file, or the document itself.
            mappings: What each `${name}` in the document stands for.
            prompt_key_path: Where in the document the prompt is, such as `prompts.greeting`.
            encoding: The encoding of the file.
            methods: Methods of the agent that `.alias` may call besides those that fill prompts.

        Returns:
            The agent.

        Raises:
            TypeError: The document, or what is at the key path, is no mapping.
            ValueError: The document can't be read, or calls another method.

        Example:
            `agent.load_yaml_prompt("prompts.yaml", {"city": "Oslo"}).start()`
        """
        # The extra is imported only when there is a document to read.
        from wieldy.agent.prompt_document import read_yaml  # noqa: PLC0415

        document = read_yaml(path_or_content, encoding)
        return self._apply_document(document, mappings, prompt_key_path, methods)

    def load_json_prompt(
        self,
        path_or_content: str | Path,
        mappings: Mappings = None,
        prompt_key_path: str | None = None,
        *,
        encoding: str | None = "utf-8",
        methods: Iterable[str] = (),
    ) -> Self:
        """Fill the slots from a JSON file, or from JSON text.

        The JSON may have comments and trailing commas, as JSON5 has.

        Args:
            path_or_content: The path of a file, or the document itself.
            mappings: What each `${name}` in the document stands for.
            prompt_key_path: Where in the document the prompt is, such as `prompts.greeting`.
            encoding: The encoding of the file.
            methods: Methods of the agent that `.alias` may call besides those that fill prompts.

        Returns:
            The agent.

        Raises:
            TypeError: The document, or what is at the key path, is no mapping.
            ValueError: The document can't be read, or calls another method.
        """
        from wieldy.agent.prompt_document import read_json  # noqa: PLC0415 - as above

        document = read_json(path_or_content, encoding)
        return self._apply_document(document, mappings, prompt_key_path, methods)

    def get_yaml_prompt(
        self, save_to: str | Path | None = None, *, encoding: str | None = "utf-8"
    ) -> str:
        """Write both prompts as YAML.

        Args:
            save_to: A file to write as well.
            encoding: The encoding of the file.

        Returns:
            YAML that `load_yaml_prompt` takes.
        """
        from wieldy.agent.prompt_document import write_yaml  # noqa: PLC0415 - as above

        return _save_document(write_yaml(self._both_prompts()), save_to, encoding)

    def get_json_prompt(
        self, save_to: str | Path | None = None, *, encoding: str | None = "utf-8"
    ) -> str:
        """Write both prompts as JSON.

        Args:
            save_to: A file to write as well.
            encoding: The encoding of the file.

        Returns:
            JSON that `load_json_prompt` takes.
        """
        from wieldy.agent.prompt_document import write_json_text  # noqa: PLC0415 - as above

        return _save_document(write_json_text(self._both_prompts()), save_to, encoding)

    def _both_prompts(self) -> dict[str, Any]:
        return {
            ".agent": self.agent_prompt.values(),
            ".request": self.request_prompt.values(inherit=False),
        }

    def _apply_document(
        self, document: Any, mappings: Mappings, key_path: str | None, methods: Iterable[str]
    ) -> Self:
        methods = frozenset(listed_names(methods))
        if not isinstance(document, Mapping):
            raise TypeError(
                "A prompt document is a mapping of slots, not "
                f"{document!r:.200}. If that is the name of a file: there is none."
            )
        if key_path is not None:
            found = find_values(document, key_path)
            document = found[0] if found else None
            if not isinstance(document, Mapping):
                raise TypeError(f"The document has no mapping at {key_path!r}.")
        for key, value in document.items():
            self._configure_key(str(key), value, mappings, methods)
        return self

    def _configure_key(
        self, key: str, value: Any, mappings: Mappings, methods: Collection[str]
    ) -> None:
        if key == ".agent":
            self._fill_slots(self.set_agent_prompt, value, "system", mappings)
        elif key == ".request":
            self._fill_slots(self.set_request_prompt, value, "input", mappings)
        elif key == ".alias":
            self._call_aliases(value, mappings, methods)
        elif key.startswith("$") and not key.startswith("${"):
            self._fill_slots(self.set_agent_prompt, {key[1:]: value}, "system", mappings)
        else:
            self._fill_slots(self.set_request_prompt, {key: value}, "input", mappings)

    def _fill_slots(
        self, put: Callable[[str, Any, Mappings], Any], value: Any, plain: str, mappings: Mappings
    ) -> None:
        from wieldy.agent.prompt_document import read_output  # noqa: PLC0415 - as above

        slots = value if isinstance(value, Mapping) else {} if value is None else {plain: value}
        for key, each in slots.items():
            name = fill_name(key, mappings)
            put(name, read_output(each) if name == "output" else each, mappings)

    def _has_method(self, name: str) -> bool:
        found = getattr_static(self, name, None)
        return not name.startswith("_") and callable(getattr(found, "__func__", found))

    def _call_aliases(self, aliases: Any, mappings: Mappings, methods: Collection[str]) -> None:
        if not isinstance(aliases, Mapping):
            raise ValueError(f"{_ALIAS_FORM}, not {aliases!r:.200}")
        calls = [(str(name), *_read_call(str(name), each)) for name, each in aliases.items()]
        there = {name for name, _, _ in calls if self._has_method(name)}
        for name in there:
            if _FILLING.fullmatch(name) is None and name not in methods:
                raise ValueError(
                    f".alias calls {name!r}, and a document calls only what fills prompts. If this "
                    f"document may do more, pass methods=[{name!r}] to the loader."
                )
        for name, positional, named in calls:
            if name not in there:
                warnings.warn(f".alias: there is no method {name!r} to call.", stacklevel=5)
                continue
            method = getattr(self, name)
            filled = fill_placeholders({"args": positional, "named": named}, mappings)
            method(*filled["args"], **filled["named"])


def _read_call(name: str, given: Any) -> tuple[list[Any], dict[str, Any]]:
    if given is None:
        return [], {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{_ALIAS_FORM}; {name!r} has {given!r:.200}")
    named = {str(key): value for key, value in given.items()}
    positional = named.pop(".args", [])
    if not isinstance(positional, list):
        raise TypeError(f".alias: .args of {name!r} is a list, not {positional!r:.200}")
    return positional, named


def _save_document(text: str, path: str | Path | None, encoding: str | None) -> str:
    if path is not None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding=encoding)
    return text
