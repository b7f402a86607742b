"""Signatures are those of the Standard Webhooks specification."""

import base64

import pytest

from wieldy.server.webhooks.signatures import read_secret, sign_message

# The example that the specification's own libraries are tested with.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_example_has_the_published_signature() -> None:
    assert sign_message(read_secret(SECRET), *MESSAGE) == SIGNATURE


def encode(length: int) -> str:
    return "whsec_" + base64.b64encode(b"\xff" * length).decode()


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        (encode(24), b"\xff" * 24),
        (encode(64), b"\xff" * 64),
        (encode(25).rstrip("="), b"\xff" * 25),
        ("any text of 24 characters", b"any text of 24 characters"),
        ("ü" * 24, "ü".encode() * 24),
    ],
)
def test_a_secret_is_base64_or_plain_text(secret: str, key: bytes) -> None:
    assert read_secret(secret) == key


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("", "24 characters"),
        ("x" * 23, "24 characters"),
        ("whsec_", "24 to 64 bytes, not 0"),
        (encode(23), "24 to 64 bytes, not 23"),
        (encode(65), "24 to 64 bytes, not 65"),
        ("whsec_" + "!" * 40, "in base64"),
        ("whsec_" + "ü" * 40, "in base64"),
        ("whsec_" + "A" * 41, "in base64"),
        ("whsk_" + "A" * 44, "key pair"),
    ],
)
def test_a_secret_that_is_too_weak_or_unreadable_is_refused(secret: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        read_secret(secret)
    assert "openssl rand" in str(refused.value)
    assert len(secret) < 20 or secret not in str(refused.value)
