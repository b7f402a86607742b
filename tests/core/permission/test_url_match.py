"""Rules over URLs: what two standards read in one, and what neither can."""

from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import Url

from wieldy import Toolbox
from wieldy.core.permission.conditions import compile_matcher, reading_matches


async def fetch(it: str) -> str:
    return it


async def is_allowed(pattern: str, text: str) -> bool:
    box = Toolbox()
    box.add(fetch, permission="confirm")
    box.rules.allow("fetch", where={"it": pattern})
    return (await box.call("fetch", {"it": text})).status.value == "ok"


async def is_denied(pattern: str, text: str) -> bool:
    box = Toolbox()
    box.add(fetch)
    box.rules.deny("fetch", where={"it": pattern})
    return (await box.call("fetch", {"it": text})).status.value == "denied"


ALLOWING = [
    ("https://*.example.com/**", "https://evil.org?.example.com/x", False),
    ("https://*.example.com/**", "https://evil.org#.example.com/x", False),
    ("https://*.example.com/**", "https://evil.org\\.example.com/x", False),
    ("https://*.example.com/**", "https://evil.org/.example.com/x", False),
    ("https://*.example.com/**", "https://evil.org\\@a.example.com/x", False),
    ("https://*.example.com/**", "https://evil.org@a.example.com/x", False),
    ("https://*.example.com/**", "https://a.example.com@evil.org/x", False),
    ("https://*.example.com/**", "https://@a.example.com/x", False),
    ("https://*.example.com/**", "https://a.example.com/x", True),
    ("https://*.example.com/**", "https://a.b.example.com/x?y#z", True),
    ("https://*.example.com/**", "HTTPS://A.EXAMPLE.COM.:443/x", True),
    ("https://*.example.com/**", "https://a.example.com", True),
    ("https://*.example.com/**", "https://a.example.com:8443/x", False),
    ("https://*.example.com:*/**", "https://a.example.com:8443/x", True),
    ("https://*.example.com:8443/**", "https://a.example.com:8443/x", True),
    ("https://*.example.com:8443/**", "https://a.example.com/x", False),
    ("https://*.example.com/**", "https://.example.com/x", False),
    ("https://*.example.com/**", "https://a..example.com/x", False),
    ("https://*.example.com/**", "https://example.com/x", False),
    ("https://*.example.com/**", "https:/a.example.com/x", False),
    ("https://*.example.com/**", "https:a.example.com/x", False),
    ("https://*.example.com/**", "//a.example.com/x", False),
    ("https://*.example.com/**", "a.example.com/x", False),
    ("https://*.example.com/**", " https://a.example.com/x", False),
    ("https://*.example.com/**", "https://a.example.com/x\n", False),
    ("https://*.example.com/**", "https://a.exam\tple.com/x", False),
    ("https://*.example.com/**", "https://\u24d0.example.com/x", True),
    ("https://*.example.com/**", "https://a。example。com/x", True),
    ("https://*.example.com/**", "https://evil.org%2f.example.com/x", False),
    ("https://*.example.com/**", "https://evil.org%23.example.com/x", False),
    ("https://*.example.com/**", "https://evil.org:80.example.com/x", False),
    ("https://*.example.com/**", "http://a.example.com/x", False),
    ("https://*.example.com/**", "https://[::1].example.com/x", False),
    ("https://*.example.com/**", "https://a.example.com/%0d%0aHost:x", False),
    ("https://bücher.de/**", "https://xn--bcher-kva.de/x", True),
    ("https://xn--bcher-kva.de/**", "https://bücher.de/x", True),
    ("https://fass.de/**", "https://faß.de/x", False),
    ("http://127.0.0.1/**", "http://2130706433/", False),
    ("http://127.0.0.1/**", "http://127.0.0.1/a", True),
    ("http://[::1]/**", "http://[0:0:0:0:0:0:0:1]/a", True),
    ("https://h.io/public/**", "https://h.io/public/../admin", False),
    ("https://h.io/public/**", "https://h.io/public/%2e%2e/admin", False),
    ("https://h.io/public/**", "https://h.io/public/%252e%252e/admin", False),
    ("https://h.io/public/**", "https://h.io/public/%25252525252e%252e/admin", False),
    ("https://h.io/public/**", "https://h.io/public/..%2fadmin", False),
    ("https://h.io/public/**", "https://h.io/public/..%5cadmin", False),
    ("https://h.io/public/**", "https://h.io/public/..;/admin", False),
    ("https://h.io/public/**", "https://h.io/public//../admin", False),
    ("https://h.io/public/**", "https://h.io/public/..;x=1/admin", False),
    ("https://h.io/public/**", "https://h.io/admin?x=/../../public/ok", False),
    ("https://h.io/public/**", "https://h.io/admin#/../../public/ok", False),
    ("https://h.io/public/**", "https://h.io/public/a;p=1/b", True),
    ("https://h.io/public/**", "https://h.io/public/a%20b", True),
    ("https://h.io/a%20b/*", "https://h.io/a%20b/c", True),
    ("https://h.io/a%2ab/*", "https://h.io/axb/c", False),
    ("https://h.io/a%2ab/*", "https://h.io/a*b/c", True),
    ("https://**", "https://h.io/a/b", True),
    ("https://**", "https://h.io", True),
    ("https://**", "http://h.io/a", False),
    ("https://**/b", "https://h.io/a/b", True),
    ("https://**/b", "https://h.io/a/c", False),
    ("https://h.io", "https://h.io/x", False),
    ("https://h.io", "https://h.io/", True),
    ("https://h.io", "https://h.io?x", True),
    ("https://h.io/", "https://h.io/x", True),
    ("https://h.io/x?a=*", "https://h.io/x?a=1", True),
    ("https://h.io/x?a=*", "https://h.io/x?a=1&b=2", False),
    ("https://h.io/x?a=*", "https://h.io/x?a=1%26b=2", False),
    ("https://h.io/x?a=*&**", "https://h.io/x?a=1&b=2", True),
    ("https://h.io/x?a=*", "https://h.io/x", False),
    ("file:///w/**", "file:///w/x", True),
    ("file:///w/**", "file:/w/x", True),
    ("file:///w/**", "file:w/x", False),
    ("file:///w/**", "file://evil/w/x", False),
    ("file:///w/**", "/w/x", False),
    ("/w/**", "file:/w/x", False),
    ("**/x", "file:/w/x", False),
    ("**/x", "https://evil.org/x", False),
    ("/w/**", "/w/what?.txt", True),
    ("/public/**", "/admin?x=/../../public/ok", False),
    ("/public/**", "/public/%2e%2e/admin", False),
    ("*://*/**", "file:///etc/passwd", False),
    ("data:image/*", "data:image/png", True),
    ("https://h.io/café/*", "https://h.io/café/x", True),
    ("https://h.io/café/*", "https://h.io/caf%c3%a9/x", True),
    ("https://h.io/caf%C3%A9/*", "https://h.io/café/x", True),
    ("https://h.io/p/*", "https://h.io/p/group%2Fproject", False),
    ("https://h.io/p/**", "https://h.io/p/group%2Fproject", True),
    ("https://h.io/p/**", "https://h.io/p/100%25", True),
]

DENYING = [
    ("https://evil.org/**", "https://evil.org:443/x", True),
    ("https://evil.org/**", "https://evil.org:8443/x", True),
    ("https://evil.org/**", "https://u:p@evil.org/x", True),
    ("https://evil.org/**", "https://EVIL.org./x", True),
    ("https://evil.org/**", "https://evil.org../x", True),
    ("https://evil.org/**", "https://evil.org?x", True),
    ("https://evil.org/**", "https://evil.org#x", True),
    ("https://evil.org/**", "https://evil.org", True),
    ("https://evil.org/**", "https:/evil.org/x", True),
    ("https://evil.org/**", "https:evil.org/x", True),
    ("https://evil.org/**", "https:\\\\evil.org\\x", True),
    ("https://evil.org/**", "https:/\\evil.org/x", True),
    ("https://evil.org/**", "//evil.org/x", True),
    ("https://evil.org/**", "\\\\evil.org/x", True),
    ("https://evil.org/**", "/\\evil.org/x", True),
    ("https://evil.org/**", "evil.org/x", True),
    ("https://evil.org/**", "evil.org", True),
    ("https://evil.org/**", "evil.org:443/x", True),
    ("https://evil.org/**", "user:pw@evil.org/x", True),
    ("https://evil.org/**", " \thttps://evil.org/x", True),
    ("https://evil.org/**", "ht\ntps://ev\til.org/x", True),
    ("https://evil.org/**", "https://%65vil.org/x", True),
    ("https://evil.org/**", "https://\uff45vil\u3002org/x", True),
    ("https://evil.org/**", "https://evil.org%20/x", True),
    ("https://evil.org/**", "https://evil.org\\@good.com/x", True),
    ("https://evil.org/**", "https://good.com@evil.org/x", True),
    ("https://evil.org/**", "https://good.com\\@evil.org/x", True),
    ("https://evil.org/**", "https://evil.org:99999/x", True),
    ("https://evil.org/**", "<https://evil.org/x>", True),
    ("https://evil.org/**", "URL:https://evil.org/x", True),
    ("https://evil.org/**", "view-source:https://evil.org/x", True),
    ("https://evil.org/**", "git+https://evil.org/x", True),
    ("https://evil.org/**", "https://good.org/x", False),
    ("https://evil.org/**", "https://good.org/?u=https://evil.org/x", False),
    ("https://evil.org/**", "http://evil.org/x", False),
    ("*://evil.org/**", "http://evil.org/x", True),
    ("https://evil.org", "https://evil.org/x", True),
    ("evil.org/**", "https://evil.org/x", True),
    ("evil.org/**", "//evil.org/x", True),
    ("*.evil.org/**", "https://a.EVIL.org/x", True),
    ("evil.org", "https://evil.org/x", True),
    ("*.evil.org", "https://a.evil.org./x", True),
    ("main", "main/feature", False),
    ("http://127.0.0.1/**", "http://2130706433/", True),
    ("http://127.0.0.1/**", "http://0x7f.1/", True),
    ("http://127.0.0.1/**", "http://0177.0.0.1/", True),
    ("http://127.0.0.1/**", "http://127.1/x", True),
    ("http://127.0.0.1/**", "http://[::ffff:127.0.0.1]/", True),
    ("http://127.0.0.1/**", "http://[64:ff9b::7f00:1]/", True),
    ("http://127.0.0.1/**", "http://\uff11\uff12\uff17.0.0.1/", True),
    ("http://127.0.0.1/**", "http://127.0.0.1./", True),
    ("http://2130706433/**", "http://127.0.0.1/", True),
    ("http://[::1]/**", "http://[0:0:0:0:0:0:0:1]/", True),
    ("http://[::1]/**", "http://[::1]:80/", True),
    ("https://h.io/admin/**", "https://h.io/public/../admin/x", True),
    ("https://h.io/admin/**", "https://h.io/%61dmin/x", True),
    ("https://h.io/admin/**", "https://h.io/%2561dmin/x", True),
    ("https://h.io/admin/**", "https://h.io//admin/x", True),
    ("https://h.io/admin/**", "https://h.io/admin;x=1/y", True),
    ("https://h.io/admin/**", "https://h.io/admin?x=/../../public/ok", True),
    ("https://h.io/admin/**", "https://h.io/admin#/../../public/ok", True),
    ("https://h.io/admin/**", "https://h.io/./admin", True),
    ("https://h.io/admin/**", "https://h.io/x/..\\admin/y", True),
    ("https://h.io/admin/**", "https://h.io/public", False),
    ("https://h.io/x?admin=1", "https://h.io/x?y=2&admin=1", True),
    ("https://h.io/x?admin=1", "https://h.io/x?%61dmin=1", True),
    ("https://h.io/x?admin=1", "https://h.io/x?y=2", False),
    ("/etc/**", "file:/etc/passwd", True),
    ("/etc/**", "file:///etc/passwd", True),
    ("/etc/**", "FILE://localhost/etc/passwd", True),
    ("/etc/**", "file://host/etc/passwd", True),
    ("/etc/**", "file:////etc/passwd", True),
    ("/etc/**", "file:etc/passwd", True),
    ("/etc/**", "file:///%65tc/passwd", True),
    ("/etc/**", "fi\tle:/etc/passwd", True),
    ("/etc/**", " file:/etc/passwd", True),
    ("/etc/**", "file:\\etc\\passwd", True),
    ("/etc/**", "file:/x/../etc/passwd?y", True),
    ("/etc/**", "url:file:///etc/passwd", True),
    ("/etc/**", "/etc?x", True),
    ("/etc/**", "/x%2f..%2f../etc/passwd", True),
    ("file:///etc/**", "file:/etc/passwd", True),
    ("file:///etc/**", "/etc/passwd", True),
    ("file:/etc/**", "file://localhost/etc/passwd", True),
    ("file:///etc/**", "file://host/etc/passwd", True),
    ("/admin/**", "/admin?x=/../../public/ok", True),
    ("javascript:*", "JavaScript:alert(1)", True),
    ("javascript:*", "java\nscript:alert(1)", True),
    ("javascript:*", " javascript:alert(1)", True),
    ("data:text/*", "DATA:text/html", True),
    ("data:text/**", "data:text/html,<b>/x", True),
    ("http://**", "GET", False),
    ("http://**", "http://anything/x", True),
    ("http://**", "http:anything", True),
    ("*internal*", "https://%69nternal.corp/", True),
    ("*internal*", "https://INTERNAL.corp/", True),
    ("https://evil.org/**", "hello world", False),
    ("https://evil.org/**", "@@@", False),
    ("https://evil.org/**", "https: is a protocol", False),
    ("https://evil.org/**", "see https://evil.org/x", False),
    ("https://*.evil.org/**", "", False),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), ALLOWING)
async def test_what_a_rule_allows_is_read_in_one_way_only(
    pattern: str, text: str, expected: bool
) -> None:
    assert await is_allowed(pattern, text) is expected


@pytest.mark.parametrize(("pattern", "text", "expected"), DENYING)
async def test_what_a_rule_denies_is_denied_by_any_reading(
    pattern: str, text: str, expected: bool
) -> None:
    assert await is_denied(pattern, text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "https://a.example.com/" + "a/" * 100_000,
        "https://a.example.com/" + "%25" * 100_000,
        "https://a.example.com/" + "../" * 100_000,
        "https://" + "a." * 100_000 + "example.com/",
        "https://" + "\u00fc" * 100_000 + "/",
        "https://a.example.com/?" + "a=1&" * 100_000,
        "a:" * 100_000,
        "@" * 100_000,
    ],
)
async def test_a_very_long_url_is_decided_on_and_not_allowed(text: str) -> None:
    pattern = "https://*.example.com/a/**/b*b*b/**/c"
    assert not await is_allowed(pattern, text)
    await is_denied(pattern, text)


@given(st.text(max_size=30), st.text(max_size=30), st.booleans())
def test_any_text_is_a_pattern_and_can_be_compared(pattern: str, text: str, url: bool) -> None:
    match = compile_matcher(f"https://{pattern}" if url else pattern)
    for restricts in (True, False):
        assert reading_matches(match, text, restricts) in (True, False)
    assert reading_matches(match, f"https://{text}", False) in (True, False)


PARTS = (
    "https: http: HTTPS: file: / // \\ @ ? # . : :443 :80 evil.org a.example.com example.com "
    ".example.com EXAMPLE.com. x .. ; & %2e %2f %5c %25 %40 %00 [ ] ::1 xn-- \u3002 \uff0e "
    "\uff0f \u2100 \u00df 0x7f.1"
)
PIECES = st.sampled_from(PARTS.split(" ")) | st.sampled_from([" ", "\t", "\n", "\x00", "\u200b"])


@given(st.lists(PIECES, max_size=10).map("".join), st.booleans())
async def test_nothing_outside_a_domain_is_ever_allowed(tail: str, whole: bool) -> None:
    text = tail if whole else f"https://{tail}"
    if await is_allowed("https://*.example.com/**", text):
        for host in (Url(text).host, urlsplit(text).hostname):
            assert host is not None
            assert (
                host.replace("\u3002", ".")
                .replace("\uff0e", ".")
                .rstrip(".")
                .lower()
                .endswith(".example.com")
            )
        assert Url(text).scheme == "https"


def some_case(letter: str) -> st.SearchStrategy[str]:
    wide = chr(ord(letter) + 0xFEE0) if letter.isalnum() else letter
    return st.sampled_from([letter, letter, letter.upper(), f"%{ord(letter):02x}", wide])


def escaped(letter: str) -> st.SearchStrategy[str]:
    once = f"%{ord(letter):02X}"
    return st.sampled_from([letter, letter, once, quote(once)])


@st.composite
def spellings_of(draw: st.DrawFn, host: str, steps: list[str]) -> str:
    """`https://host/steps`, written so that nobody sees at once what it is."""
    scheme = draw(st.sampled_from(["https:", "HTTPS:", "hTtPs:"]))
    slashes = draw(st.sampled_from(["//", "/", "", "///", "\\\\", "/\\"]))
    user = draw(st.sampled_from(["", "@", "u@", "u:p@", "good.com@"]))
    name = "".join(draw(some_case(letter)) for letter in host)
    end = draw(st.sampled_from(["", ".", ":443", ".:443", ":", ":8443"]))
    between = st.sampled_from(["/", "//", "/./", "/x/../", "/%2e/", "/y/%2E%2e/"])
    path = "".join(draw(between) + "".join(map(draw, map(escaped, step))) for step in steps)
    tail = draw(st.sampled_from(["", "?", "#", "?x=/../../ok", "#/../../ok", "/", "/more"]))
    text = f"{scheme}{slashes}{user}{name}{end}{path}{tail}"
    at = draw(st.integers(0, len(text)))
    unseen = draw(st.sampled_from(["", "\t", "\n", "\r"]))
    return draw(st.sampled_from(["", " ", "\x01"])) + text[:at] + unseen + text[at:]


@given(spellings_of("evil.org", ["admin", "keys"]))
async def test_every_spelling_of_a_denied_url_is_denied(text: str) -> None:
    assert await is_denied("https://evil.org/admin/**", text)


@given(spellings_of("127.0.0.1", ["x"]))
async def test_every_spelling_of_a_denied_address_is_denied(text: str) -> None:
    assert await is_denied("https://127.0.0.1", text)
