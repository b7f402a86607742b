"""Find tools by what they do."""

import math
import threading
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop

from wieldy.core.registry import Registry
from wieldy.core.tool import Tool

from .parameter_names import visible_parameters

# How much a word counts in each part of a tool, and how many words such a part usually has: in a
# longer one each word counts less.
_NAME = (3.0, 4)
_TAGS = (1.0, 2)
_FIRST_LINE = (2.0, 8)
_DESCRIPTION = (1.0, 40)
_PARAMETERS = (0.5, 6)
_EVENED = 0.75
_SATURATION = 2.0
# The weight of a word that means the same as a word of the question.
_SIMILAR = 0.4
# A word that is in more tools than this, and in a fifth of all tools, distinguishes few of them.
_COMMON = 500
# A question has a few words; the rest of a long text is not looked at.
_MAX_WORDS = 64


class Index:
    """Maps words to tools. It follows the registry one tool at a time and is never rebuilt.

    Tools are ranked as BM25 does it: a rare word counts more than a common one, the tenth use of
    a word adds less than the second, and a word in a name counts more than one in a description.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._weights: dict[str, dict[str, float]] = {}
        self._known: dict[str, tuple[Tool, list[str]]] = {}
        self._stale: set[str] = set()
        self._started = False
        registry.watch(self._mark_stale)

    def search(self, query: str) -> Iterator[str]:
        """The names of tools that share words with the query, the best first."""
        with self._lock:
            self._catch_up()
            scores = self._score_tools(query)
            place = {name: number for number, name in enumerate(self._registry.names())}
        ranked = [(-score, place.get(name, len(place)), name) for name, score in scores.items()]
        # A heap is used, because only a few of many results are read.
        heapify(ranked)
        while ranked:
            yield heappop(ranked)[2]

    def _score_tools(self, query: str) -> dict[str, float]:
        """How well each tool fits; the rarest words are counted first."""
        total = len(self._known) + 1
        common = max(_COMMON, total / 5)
        scores: dict[str, float] = {}
        for found, share in sorted(self._wanted_words(query), key=lambda pair: len(pair[0])):
            rarity = share * math.log(1 + total / (1 + len(found)))
            if scores and len(found) > common:
                # A word that is nearly everywhere only ranks the tools that rarer words have found.
                for name in scores:
                    scores[name] += found.get(name, 0.0) * rarity
            else:
                for name, weight in found.items():
                    scores[name] = scores.get(name, 0.0) + weight * rarity
        return scores

    def _wanted_words(self, query: str) -> Iterator[tuple[dict[str, float], float]]:
        """The tools of each word of a query and of words like it, and how much that counts."""
        from .search_words import similar_words, split_words  # noqa: PLC0415

        words = dict.fromkeys(split_words(query)[:_MAX_WORDS], 1.0)
        for word in list(words):
            for other in similar_words(word):
                words.setdefault(other, _SIMILAR)
        for word, share in words.items():
            if word in self._weights:
                yield self._weights[word], share

    def _mark_stale(self, name: str | None) -> None:
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
            self._drop_tool(name)
            tool = self._registry.find(name)
            if tool is not None and tool.name == name:
                self._take_tool(tool)

    def _take_tool(self, tool: Tool) -> None:
        first, _, rest = tool.stated_description.partition("\n")
        uses: dict[str, float] = {}
        for (weight, usual), texts in (
            (_NAME, (tool.name,)),
            (_TAGS, tool.tags),
            (_FIRST_LINE, (first,)),
            (_DESCRIPTION, (rest,)),
            (_PARAMETERS, visible_parameters(tool)),
        ):
            _count_uses(uses, texts, weight, usual)
        for word, used in uses.items():
            self._weights.setdefault(word, {})[tool.name] = used / (used + _SATURATION)
        self._known[tool.name] = (tool, list(uses))

    def _drop_tool(self, name: str) -> None:
        _, words = self._known.pop(name, (None, []))
        for word in words:
            tools = self._weights[word]
            tools.pop(name, None)
            if not tools:
                del self._weights[word]


def _count_uses(uses: dict[str, float], texts: Iterable[str], weight: float, usual: int) -> None:
    from .search_words import split_words  # noqa: PLC0415

    words = [word for text in texts for word in split_words(text)]
    each = weight / (1 - _EVENED + _EVENED * len(words) / usual)
    for word in words:
        uses[word] = uses.get(word, 0.0) + each
