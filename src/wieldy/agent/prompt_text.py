"""Convert a prompt to the turns of a conversation: system, history and one user message."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.models.model import Content, Role, Said, Turn
from wieldy.wire.cost import stable_json

from .output.data_formatter import DataFormatter
from .output.output_form import OutputForm
from .output.output_text import structure_text
from .prompt import SLOTS

_ROLES = get_args(Role)
_SYSTEM_TITLES = {
    "your_role": "Your role. React and answer as this:",
    "rule": "Rules that you must follow:",
    "user_info": "About the user:",
}


def make_turns(prompt: Mapping[str, Any], form: OutputForm, extra_system: str = "") -> list[Turn]:
    """The messages for a prompt; `ValueError` if the prompt asks for nothing.

    Args:
        prompt: The slots.
        form: What the answer should be; it is told in the user message.
        extra_system: What else is told in the system message, such as how to call tools.
    """
    turns: list[Turn] = []
    system = "\n\n".join(filter(None, (_system_text(prompt.get("system")), extra_system)))
    if system:
        turns.append(Said("system", system))
    if _is_given(prompt.get("developer")):
        turns.append(Said("developer", value_text(prompt["developer"])))
    turns += [_past_message(each) for each in _as_list(prompt.get("chat_history"))]
    return [*turns, Said("user", _user_content(prompt, form))]


def value_text(value: Any) -> str:
    """The value of a slot as text: text unchanged, anything else as JSON."""
    if isinstance(value, str):
        return value
    plain = DataFormatter.sanitize(value)
    if isinstance(plain, dict | list):
        return dump_json(plain, MAX_WRAPPED, ensure_ascii=False, indent=2, default=str)
    return stable_json(plain) if isinstance(plain, bool) or plain is None else str(plain)


def _system_text(system: Any) -> str:
    if not _is_given(system):
        return ""
    if not isinstance(system, Mapping):
        return "\n".join(map(value_text, system)) if _is_list(system) else value_text(system)
    parts: list[str] = []
    for key, value in system.items():
        if key == "instruction":
            parts.insert(0, value_text(value))
        elif _is_given(value):
            title = _SYSTEM_TITLES.get(key, f"{key}:")
            parts.append(f"{title}\n{_lines_text(value)}")
    return "\n\n".join(parts)


def _user_content(prompt: Mapping[str, Any], form: OutputForm) -> Content:
    attached = [_attachment_part(each) for each in _as_list(prompt.get("attachment"))]
    text = _user_text(prompt, form)
    if not text and not attached:
        raise ValueError(
            "The request asks for nothing. Give it an input(), info(), instruct(), output() "
            "or attachment() first."
        )
    if not attached:
        return text
    return [{"type": "text", "text": text}, *attached] if text else attached


def _user_text(prompt: Mapping[str, Any], form: OutputForm) -> str:
    sections = _user_sections(prompt)
    wanted = form.describe()
    if wanted:
        sections.append(("OUTPUT", wanted))
    if [title for title, _ in sections] == ["INPUT"]:
        return sections[0][1]
    return "\n\n".join(f"[{title}]\n{text}" for title, text in sections)


def _user_sections(prompt: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sections of the user message with their titles, in order."""
    extras = [key for key in prompt if key not in SLOTS]
    order = ["tools", "action_results", "info", *extras, "instruct", "examples", "input"]
    found = []
    for key in order:
        value = prompt.get(key)
        # An input of 0 or "" is a value, but an empty list of rules is not.
        if value is None or (key != "input" and not _is_given(value)):
            continue
        title = key.replace("_", " ").upper() if key in SLOTS else key
        found.append((title, _slot_text(key, value)))
    return found


def _slot_text(key: str, value: Any) -> str:
    if key == "tools":
        return "\n\n".join(map(_tool_text, _as_list(value)))
    if key in ("info", "instruct", "examples"):
        return _lines_text(value)
    return value_text(value)


def _lines_text(value: Any) -> str:
    """A list or dict as text with one line per entry; anything else as `value_text` gives it."""
    if isinstance(value, Mapping) and value:
        return "\n".join(f"- {key}: {value_text(each)}" for key, each in value.items())
    if _is_list(value):
        return "\n".join(f"- {value_text(each)}" for each in value)
    return value_text(value)


def _tool_text(info: Any) -> str:
    if not isinstance(info, Mapping):
        return value_text(info)
    lines = []
    for key, value in info.items():
        shown = structure_text(value) if key in ("kwargs", "returns") else value_text(value)
        lines.append(f"{key}: {shown}")
    return "\n".join(lines)


def _past_message(message: Any) -> Said:
    if not isinstance(message, Mapping):
        return Said("user", value_text(message))
    role = message.get("role", "user")
    content = message.get("content", "")
    if role not in _ROLES:
        role = "assistant"
    if _is_list(content) and all(isinstance(each, Mapping) and "type" in each for each in content):
        return Said(role, [dict(each) for each in content])
    return Said(role, value_text(content))


def _attachment_part(attachment: Any) -> dict[str, Any]:
    if isinstance(attachment, str):
        return {"type": "text", "text": attachment}
    if isinstance(attachment, Mapping) and isinstance(attachment.get("type"), str):
        return dict(attachment)
    raise ValueError(
        'An attachment is a list of parts such as {"type": "image_url", "image_url": '
        f'{{"url": "…"}}}}, not {attachment!r:.200}'
    )


def _as_list(value: Any) -> Sequence[Any]:
    if value is None or value == "":
        return ()
    return value if _is_list(value) else [value]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set)


def _is_given(value: Any) -> bool:
    return value is not None and value not in ("", [], {}, ())
