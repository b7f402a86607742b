"""What the tests of OpenAPI documents share."""

from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.openapi.api import Api, serving
from wieldy import Toolbox


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as api:
        yield api


@pytest.fixture
def other_api() -> Iterator[Api]:
    with serving() as api:
        yield api


@pytest.fixture
async def box() -> AsyncIterator[Toolbox]:
    async with Toolbox() as box:
        yield box


# Property tests are about values, not about how busy the machine is.
settings.register_profile("calm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calm")
