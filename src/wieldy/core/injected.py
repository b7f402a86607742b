"""Types that are passed in by the engine and never asked of a model."""


class Injected:
    """A parameter annotated with a subclass of this is not in the tool's schema."""

    __slots__ = ()
