"""Find tools by what they do."""

import math
import re
import threading
from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop

from .registry import Registry
from .tool import Tool

_WORD = re.compile(r"[a-z0-9]+|[^\W\x00-\x7f]", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME_WEIGHT = 3.0
# A word that is in more tools than this, and in a fifth of all tools, distinguishes few of them.
_COMMON = 500
_SMALL = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on"}
    | {"or", "that", "the", "to", "with"}
)


class Index:
    """Maps words to tools. It follows the registry one tool at a time and is never rebuilt."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._weights: dict[str, dict[str, float]] = {}
        self._known: dict[str, tuple[Tool, list[str]]] = {}
        self._stale: set[str] = set()
        self._started = False
        registry.watch(self._changed)

    def search(self, query: str) -> Iterator[str]:
        """The names of tools that share words with the query, the best first."""
        with self._lock:
            self._catch_up()
            scores = self._scores(query)
            place = {name: number for number, name in enumerate(self._registry.names())}
        ranked = [(-score, place.get(name, len(place)), name) for name, score in scores.items()]
        # A heap is used, because only a few of many results are read.
        heapify(ranked)
        while ranked:
            yield heappop(ranked)[2]

    def _scores(self, query: str) -> dict[str, float]:
        """How well each tool fits; the rarest words are counted first."""
        total = len(self._known) + 1
        common = max(_COMMON, total / 5)
        scores: dict[str, float] = {}
        for found in sorted((self._weights.get(word, {}) for word in set(_words(query))), key=len):
            rarity = math.log(1 + total / (1 + len(found)))
            if scores and len(found) > common:
                # A word that is nearly everywhere only ranks the tools that rarer words have found.
                for name in scores:
                    scores[name] += found.get(name, 0.0) * rarity
            else:
                for name, weight in found.items():
                    scores[name] = scores.get(name, 0.0) + weight * rarity
        return scores

    def _changed(self, name: str | None) -> None:
        with self._lock:
            if name is None:
                self._started = False
            elif self._started:
                self._stale.add(name)

    def _catch_up(self) -> None:
        if not self._started:
            current = {tool.name: tool for tool in self._registry.tools()}
            gone = [n for n, (tool, _) in self._known.items() if current.get(n) is not tool]
            new = [name for name in current if name not in self._known]
            self._stale.update(gone, new)
            self._started = True
        while self._stale:
            name = self._stale.pop()
            self._drop(name)
            tool = self._registry.find(name)
            if tool is not None and tool.name == name:
                self._take(tool)

    def _take(self, tool: Tool) -> None:
        counts = Counter(_words(tool.description))
        weights = {word: 1 + math.log(count) for word, count in counts.items()}
        for word in [*_words(tool.name), *(word for tag in tool.tags for word in _words(tag))]:
            weights[word] = weights.get(word, 0.0) + _NAME_WEIGHT
        for word, weight in weights.items():
            self._weights.setdefault(word, {})[tool.name] = weight
        self._known[tool.name] = (tool, list(weights))

    def _drop(self, name: str) -> None:
        _, words = self._known.pop(name, (None, []))
        for word in words:
            tools = self._weights[word]
            tools.pop(name, None)
            if not tools:
                del self._weights[word]


def _words(text: str) -> list[str]:
    """Lower-case words without small ones and common endings; each CJK character is a word."""
    words = (word.lower() for word in _WORD.findall(_HUMP.sub(" ", text)))
    return [_stem(word) for word in words if word not in _SMALL]


def _stem(word: str) -> str:
    for endings in (("s",), ("ing", "ed"), ("e",)):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word.removesuffix(ending)
                break
    return word
