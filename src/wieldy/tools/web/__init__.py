"""Search the web and read its pages, without being led to places that only we can reach."""

try:
    import httpcore2 as httpcore2
except ImportError as error:
    raise ImportError(f'{error}. The web tools need an extra: pip install "wieldy[web]"') from error

from .browser_process import Browser
from .search_providers import Bocha, Brave, SearXNG, Tavily
from .search_result import SearchProvider, SearchQuestion, SearchResult
from .web_tools import add_web_tools

__all__ = [
    "Bocha",
    "Brave",
    "Browser",
    "SearXNG",
    "SearchProvider",
    "SearchQuestion",
    "SearchResult",
    "Tavily",
    "add_web_tools",
]
