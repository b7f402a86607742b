"""A model by its name, and its settings from arguments and the environment."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.models.server import ModelServer, Scene
from tests.models.voices import VOICES, Voice
from wieldy import ModelRefused, Secret, UnknownModel
from wieldy.models import Model, ModelRequest, ModelSettings, Said, close_connections, find_model
from wieldy.models.anthropic import ANTHROPIC
from wieldy.models.find import NUMBER_VARIABLES
from wieldy.models.gemini import GEMINI
from wieldy.models.openai import CHAT
from wieldy.models.openai_responses import RESPONSES
from wieldy.testing import ScriptedModel

KEY = "sk-from-the-environment"
VARIABLES = ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "WIELDY_MODEL")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests see no variables but their own."""
    for name in list(os.environ):
        if name.startswith(VARIABLES):
            monkeypatch.delenv(name)
    yield


async def ask(model: Model) -> None:
    async for _ in model.stream(ModelRequest([Said("user", "Hi")])):
        pass


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt-5", "provider:model"),
        ("opnai:gpt-5", "Did you mean 'openai'"),
        ("claude:opus", "The providers are|Did you mean"),
        ("openai:", "openai:model"),
        ("anthropic: ", "anthropic:model"),
        ("", "provider:model"),
        ("ollama:llama3", "base_url"),
    ],
)
def test_a_name_that_means_no_model_is_an_error_that_says_what_would(name: str, hint: str) -> None:
    with pytest.raises(UnknownModel, match=hint):
        find_model(name)


@pytest.mark.parametrize("voice", VOICES, ids=str)
def test_each_provider_has_its_models(voice: Voice) -> None:
    model = find_model(f"{voice.name}:some/model:8b", context_window=9)
    assert (model.name, model.context_window) == (f"{voice.name}:some/model:8b", 9)


def test_an_object_is_given_back_and_takes_no_settings() -> None:
    model = ScriptedModel()
    assert find_model(model) is model
    with pytest.raises(TypeError, match="object already"):
        find_model(model, api_key="x")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"tiemout": 3}, "Did you mean 'timeout'"),
        ({"timeout": 0}, "above 0"),
        ({"silence": "long"}, "above 0"),
        ({"retries": -1}, "of 0 or more"),
        ({"api_key": "pass-wörd"}, "no HTTP header can hold"),
        ({"api_key": "pass-word\nX: y"}, "no HTTP header can hold"),
        ({"connections": True}, "above 0"),
        ({"base_url": "localhost:11434"}, "begins with http"),
        ({"base_url": "http://"}, "names a host"),
        ({"base_url": "http://[::1"}, "begins with http"),
        ({"base_url": "https://me:word@host/v1"}, "user name or a password"),
    ],
)
def test_a_setting_that_is_wrong_is_refused_at_once(settings: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error) as caught:
        find_model("openai:m", **settings)
    assert "word" not in str(caught.value).replace("password", "")


def test_a_missing_sdk_is_named_with_what_installs_it() -> None:
    code = (
        "import sys; sys.modules['openai'] = None; sys.modules['google'] = None\n"
        "from wieldy.models import find_model\n"
        "for name in ('openai:m', 'openai-responses:m', 'gemini:m'):\n"
        "    try: find_model(name)\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line.partition("pip ")[2] for line in done.stdout.splitlines()] == [
        'install "wieldy[openai]"',
        'install "wieldy[openai]"',
        'install "wieldy[gemini]"',
    ]


@pytest.mark.parametrize("voice", VOICES, ids=str)
async def test_without_a_key_nothing_is_sent_to_a_provider(voice: Voice) -> None:
    model = find_model(f"{voice.name}:m")
    assert model.render(ModelRequest([Said("user", "Hi")]))
    with pytest.raises(ModelRefused, match=r"api_key=, or set \w+_API_KEY"):
        await ask(model)


@pytest.mark.parametrize("voice", VOICES, ids=str)
async def test_key_and_address_come_from_the_environment(
    voice: Voice, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = voice.name.partition("-")[0].upper()
    monkeypatch.setenv(f"{prefix}_API_KEY", f" {KEY}\n")
    monkeypatch.setenv(f"{prefix}_BASE_URL", server.url + voice.base)
    server.play(Scene([voice.speak("Hi")]))
    await ask(find_model(f"{voice.name}:m"))
    assert server.asked[0].headers[voice.key_header].endswith(KEY)


@pytest.mark.parametrize("voice", VOICES, ids=str)
async def test_a_key_of_the_environment_is_not_sent_to_another_server(
    voice: Voice, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for prefix in VARIABLES:
        monkeypatch.setenv(f"{prefix}_API_KEY", KEY)
    server.play(Scene([voice.speak("Hi")]))
    await ask(find_model(f"{voice.name}:m", base_url=server.url + voice.base))
    assert KEY not in str(server.asked[0].headers)


async def test_a_key_is_in_no_repr_and_no_log(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    server.play(Scene([b'{"error": {"message": "no"}}'], 401))
    headers = {"X-Api-Token": "another-secret"}
    given: dict[str, Any] = {"base_url": server.url, "api_key": Secret(KEY), "headers": headers}
    for voice in VOICES:
        model = find_model(f"{voice.name}:m", **given)
        with pytest.raises(ModelRefused) as caught:
            await ask(model)
        shown = f"{model!r} {vars(model)} {caught.value!r} {caught.value}"
        assert KEY not in shown and "another-secret" not in shown
    assert server.asked[0].headers["x-api-token"] == "another-secret"
    assert KEY not in caplog.text and "another-secret" not in caplog.text


def test_numbers_come_from_the_environment_and_arguments_go_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WIELDY_MODEL_TIMEOUT", "7.5")
    monkeypatch.setenv("WIELDY_MODEL_RETRIES", "4")
    settings: ModelSettings = vars(find_model("openai:m", retries=1))["_settings"]
    assert (settings.timeout, settings.retries, settings.max_answer) == (7.5, 1, 4_000_000)
    monkeypatch.setenv("WIELDY_MODEL_RETRIES", "many")
    with pytest.raises(ValueError, match="WIELDY_MODEL_RETRIES is a number, not 'many'"):
        find_model("openai:m")


def test_the_page_lists_every_variable() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    apis = (CHAT, RESPONSES, ANTHROPIC, GEMINI)
    read = {name for api in apis for name in (*api.key_variables, *api.address_variables)}
    read |= {variable for variable, _ in NUMBER_VARIABLES.values()}
    assert {name for name in read if f"`{name}`" not in page} == set()


def test_no_sdk_is_loaded_before_the_first_request() -> None:
    code = (
        "import sys\nfrom wieldy.models import ModelRequest, Said, find_model\n"
        "request = ModelRequest([Said('user', 'Hi')])\n"
        "for name in ('openai', 'openai-responses', 'anthropic', 'gemini'):\n"
        "    find_model(name + ':m').render(request)\n"
        "print([each for each in ('openai', 'anthropic', 'google.genai', 'httpx2')"
        " if each in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_closing_what_was_never_opened_does_nothing() -> None:
    await close_connections()
    await asyncio.wait_for(close_connections(), 120)
