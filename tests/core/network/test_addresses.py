"""What is near is near in every spelling, and whoever names it."""

import ipaddress
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.names import Names
from wieldy import ServiceError
from wieldy.core.network.addresses import (
    Reach,
    is_near_address,
    is_near_host,
    is_near_url,
    read_address,
    resolve_host,
)

NEAR = [
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7F.1",
    "0x7f.0.0.1",
    "017700000001", "0177.0.0.1", "0177.1", "0", "0.0.0.0", "0x0", "localhost", "LOCALHOST.",
    "a.localhost", "printer.local", "db.internal", "metadata.google.internal.", "nas.lan",
    "router.home.arpa", "", "10.0.0.1", "10.1", "167772161", "172.16.0.1", "192.168.0.1",
    "192.168.1", "192.88.99.1", "168.63.129.16",
    "169.254.169.254", "2852039166", "0xa9fea9fe", "100.64.0.1", "100.127.255.254", "198.18.0.1",
    "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.0.0.8", "192.0.2.1",
    "[::1]", "::1", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::127.0.0.1]", "[::7f00:1]", "[::ffff:0:10.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b::10.0.0.1]", "[2001:2::1]", "[3fff::1]",
    "[64:ff9b::169.254.169.254]", "[64:ff9b:1::1]", "[64:ff9b:1::8.8.8.8]", "[2002:7f00:1::]",
    "[2002:a00:1::1]", "[2002:c0a8:101::]", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "[fe80::1]",
    "fe80::1%eth0", "[fec0::1]", "[fc00::1]", "[fd12::1]", "[ff02::1]", "[2001:db8::1]",
    "[2606:4700::5efe:127.0.0.1]", "[fe80::5efe:1.1.1.1]", "[100::1]", "127。0。0。1", "①②⑦.0.0.1",
    "\uff11\uff12\uff17.0.0.1", "%31%32%37.0.0.1",
]  # fmt: skip
FAR = [
    "1.1.1.1", "1.1.1.1.", "16843009", "0x1010101", "8.8.8.8", "example.com", "example.com.",
    "localhost.example.com", "internal.example.com", "10.0.0.1.example.com", "[2606:4700::1111]",
    "[::ffff:1.1.1.1]", "[64:ff9b::1.1.1.1]", "[2002:101:101::1]", "notlocalhost",
    "xn--bcher-kva.de",
]  # fmt: skip


@pytest.mark.parametrize("host", NEAR)
def test_this_machine_and_its_networks_are_near_in_every_spelling(host: str) -> None:
    assert is_near_host(host)
    assert is_near_url(f"http://{host}:8080/x")


@pytest.mark.parametrize("host", FAR)
def test_the_public_network_is_far(host: str) -> None:
    assert not is_near_host(host)
    assert not is_near_url(f"https://user@{host}/x")


@pytest.mark.parametrize("url", ["http://1.1.1.1@127.0.0.1/", "http://[", "http://1.1.1.1\\@10.1/"])
def test_url_that_is_read_in_two_ways_is_near_if_one_of_them_is(url: str) -> None:
    assert is_near_url(url)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_an_address_is_as_near_in_any_form_as_it_is_in_the_usual_one(
    number: int, far: bool
) -> None:
    plain = ipaddress.IPv4Address(0x01010000 | number & 0xFFFF if far else number)
    near, number = is_near_address(plain), int(plain)
    first, rest = number >> 24, number & 0xFFFFFF
    forms = [str(number), hex(number), f"0{number:o}", f"{plain}.", f"{first}.{rest}"]
    forms += [f"[::ffff:{plain}]", f"[64:ff9b::{plain}]"]
    forms += [f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]"]

    assert [is_near_host(form) for form in forms] == [near] * len(forms)


def test_name_is_no_address() -> None:
    assert [read_address(name) for name in ("example.com", "1.example", "")] == [None] * 3
    assert read_address("0x7f.1") == ipaddress.ip_address("127.0.0.1")


@pytest.mark.parametrize("near", [["10.0.0.7"], ["1.1.1.1", "127.0.0.1"], ["64:ff9b::a00:1"]])
async def test_name_that_stands_for_a_near_address_is_refused(near: list[str]) -> None:
    reach = Reach(Names({"rebind.example": [near]}))

    with pytest.raises(ServiceError, match=r"rebind\.example is on this machine or its network"):
        await reach.find("rebind.example", 443)


async def test_what_the_user_chose_is_reached_and_so_is_what_stands_for_the_same() -> None:
    names: dict[str, list[Sequence[str]]] = {
        "mine.example": [["10.0.0.7"]],
        "same.example": [["10.0.0.7"]],
        "db.example": [["10.0.0.8"]],
    }
    reach = Reach(Names(names))
    reach.allow("MINE.example.")

    assert await reach.find("same.example", 443) == ["10.0.0.7"]
    assert await reach.find("mine.example", 443) == ["10.0.0.7"]
    assert reach.is_near("mine.example")
    assert not reach.is_near("same.example")
    with pytest.raises(ServiceError):
        await reach.find("db.example", 443)


async def test_near_place_leads_to_others_only_where_that_was_said() -> None:
    reach = Reach(
        Names({"mine.example": [["10.0.0.7"]], "far.example": [["1.1.1.1"]]}), leads_on=True
    )
    reach.allow("mine.example")
    far = Reach(Names({"far.example": [["1.1.1.1"]]}), leads_on=True)
    far.allow("far.example")

    assert await reach.find("169.254.169.254", 80) == ["169.254.169.254"]
    with pytest.raises(ServiceError):
        await far.find("169.254.169.254", 80)


async def test_system_knows_this_machine() -> None:
    assert set(await resolve_host("localhost", 80)) <= {"127.0.0.1", "::1"}
    with pytest.raises(OSError, match="no name of a host"):
        await resolve_host("a" * 70 + ".example", 80)
