"""OpenAPI documents as tools: each operation a tool that makes one HTTP request."""

try:
    import httpx2 as httpx2
    import yaml as yaml
except ImportError as error:
    raise ImportError(
        f'OpenAPI documents need more packages ({error}): pip install "wieldy[openapi]"'
    ) from error
