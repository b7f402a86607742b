"""Recognise text that tells the model what to do behind the user's back.

It matches common phrases, not meanings. A person should read what it finds, and text without
findings is not necessarily harmless.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

# The origin of a text: the definition of a tool, or a tool's result.
Origin = Literal["definition", "result"]

_WHO = (
    r"(?:the |your |any |every )?(?:end[- ]?)?"
    r"(?:users?|humans?|persons?|people|operators?|owners?|anyone|anybody)"
)
_USER = r"(?:the |your )?(?:end[- ]?)?(?:users?|humans?|operators?)"
_NOT = r"(?:do not|don'?t|never|must not|should not|mustn'?t|shouldn'?t|without|avoid)"
_TELL = (
    r"(?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|disclose|disclosing"
    r"|notify|notifying|alert|alerting|warn|warning|let|letting|show|showing|say)"
)
_BETRAY = r"(?:tell|inform|mention|reveal|disclose|notify|alert|warn)(?:ing)?"
_READ = r"(?:read|open|cat|load|fetch|access|retrieve|collect|gather|list|look (?:at|into))"
_GIVE = (
    r"(?:pass|send|put|include|provide|supply|append|add|insert|copy|forward|paste|attach|place)"
)
_PRIVATE = (
    r"(?:(?:its|their|whose) (?:full |entire |whole )?contents?"
    r"|(?:contents?|data|text|values?) (?:of|from) (?:the|that|those|this|any|all|your) "
    r"(?:files?|conversation|chat|environment|previous|messages?|other tools?)"
    r"|(?:whole |entire |full |complete )?(?:conversation|chat|message) history"
    r"|(?:whole|entire|full|complete) conversation|system prompt|(?:previous|prior|all) messages"
    r"|environment variables|private keys?|ssh keys?)"
)
_PLACES = (
    r"~?/?\.ssh\b|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials|/etc/(?:passwd|shadow)\b"
    r"|\.cursor/mcp|\bmcp\.json\b|claude_desktop_config|\.netrc\b|\.kube/config|\.git-credentials"
    r"|\.pypirc\b|\.gnupg\b|\bwallet\.dat\b"
)
_ELSEWHERE = r"(?:https?://|[\w.+-]{1,64}@(?!example\.)[\w-]{1,64}\.\w|\+\d[\d -]{6,})"
_MACHINE = (
    r"(?:ais?|a\.i\.|llms?|language models?|(?:ai|virtual|digital|coding) (?:assistants?|agents?)"
    r"|chat ?bots?|ai models?|copilot|chatgpt|gpt(?:-?\d\w{0,9})?|claude|gemini|llama)"
)
# These words also name people.
_MODEL = rf"(?:{_MACHINE}|assistants?|agents?)"
_TASK = r"(?:tasks?|requests?|questions?|instructions?|goals?|objectives?|assignments?|prompts?)"
_ORDERS = r"(?:instructions?|commands?|orders?|directives?|tasks?|actions?)"
_SECRETS = (
    r"(?:conversation|chat history|system prompt|api keys?|passwords?|credentials?|private keys?"
    r"|access tokens?|environment variables|secrets)"
)

_HIDDEN_BLOCK = "hidden block"
_TO_MODEL = "instruction to the model"
_SECRECY = "secrecy from the user"
_SENSITIVE = "private data"

# Each entry has words of which one must stand near what its expression matches. The text is in
# lower case, with one space between words. Every repetition has a bound.
_Entry = tuple[str, tuple[str, ...], str]
_ANYWHERE: tuple[_Entry, ...] = (
    (
        _HIDDEN_BLOCK,
        ("<|", "[inst]", "[/inst]", "<<sys>>", "<</sys>>", "###"),
        r"<\|(?:im_start|im_end|system|assistant|endoftext)\|>|\[/?inst\]|<</?sys>>"
        r"|#{2,9} ?(?:system|new instructions?|instructions?)\b ?:",
    ),
    (
        _TO_MODEL,
        ("ignore", "disregard", "forget", "override"),
        r"\b(?:ignore|disregard|forget|override)\b.{0,20}"
        r"\b(?:previous|prior|above|earlier|preceding|system|your|safety|all|any)\b.{0,20}"
        r"\b(?:instructions?|prompts?|guidelines?|directives?)\b"
        r"|\b(?:ignore|disregard|forget)\b.{0,20}\b(?:previous|prior|earlier|your)\b.{0,20}\brules?\b",
    ),
    (
        _TO_MODEL,
        ("new instruction", "new system", "system prompt", "system m", "system n", "system o"),
        r"\bnew (?:system )?instructions? ?:|\bsystem (?:prompt|message|note|override) ?:",
    ),
    (
        _TO_MODEL,
        ("忽略", "无视", "無視"),
        r"(?:忽略|无视|無視).{0,12}(?:指令|指示|提示|规则|規則)|(?:指示|命令|指令).{0,6}無視",
    ),
    (
        _SECRECY,
        ("user", "human", "operator"),
        rf"\b{_NOT}\b (?:\w{{1,30}} ){{0,2}}{_BETRAY}\b (?:\w{{1,30}} ){{0,5}}?{_USER}\b"
        r"|\bwithout (?:the |any )?user(?:'s)? (?:confirmation|consent|permission|approval)\b",
    ),
    (
        _SECRECY,
        ("用户", "使用者"),
        r"(?:不要|不能|不得|别|切勿)(?:告诉|告知|通知|提醒|让|向)?(?:用户|使用者)",
    ),
    (
        _SENSITIVE,
        ("before",),
        rf"\bbefore\b.{{0,60}}\b(?:tool|function|call|calling|using|use)\b.{{0,40}}"
        rf"\b{_READ}\b.{{0,40}}(?:\bfiles? (?:at|in|from|named|called)\b|~/|[\w.]/[\w.]"
        r"|\b(?:credential|key|secret|password|token)s?\b|\bconfig(?:uration)? file)",
    ),
    (
        _SENSITIVE,
        ("content", "conversation", "history", "system prompt", "messages", "environment", "keys"),
        rf"\b{_GIVE}\b (?:\w{{1,30}} ){{0,4}}?{_PRIVATE}"
        r"(?:.{0,40}\b(?:as|in|into|to|through|via|with)\b| ?(?:[.;]|\Z))",
    ),
)
# Phrases that no definition needs, although they are ordinary in pages and mails.
_DEFINITIONS: tuple[_Entry, ...] = (
    (_HIDDEN_BLOCK, ("<!--",), r"<!--.{0,200}"),
    (
        _HIDDEN_BLOCK,
        ("<",),
        r"</?\s?(?:important|system|instructions?|secrets?|hidden|critical|override|admin"
        r"|assistant|developer|priority|attention)\s?>",
    ),
    (_TO_MODEL, ("you are now",), r"\byou are now (?:an?|in|the)\b"),
    (
        _TO_MODEL,
        ("other tool", "other server", "other mcp"),
        rf"\b(?:{_NOT}|instead of|rather than) (?:use |using |call |calling |invoke )?"
        r"(?:any|all|every|the|an)? ?other (?:mcp )?(?:tool|server)s?\b"
        r"|\b(?:any|all|every) other (?:tool|server|mcp)s?\b.{0,60}\b(?:must|always|never)\b",
    ),
    (
        _TO_MODEL,
        ("send", "forward", "bcc", "upload", "post", "recipient"),
        r"\b(?:always|also|first|every|all|instead|secretly|must)\b.{0,60}"
        r"\b(?:send|forward|bcc|upload|post|recipient)\b"
        rf".{{0,80}}\bto\b.{{0,20}}{_ELSEWHERE}"
        rf"|\b(?:change|set|replace)\b.{{0,20}}\brecipients?\b.{{0,20}}{_ELSEWHERE}",
    ),
    (
        _SECRECY,
        ("user", "human", "person", "people", "operator", "owner", "anyone", "anybody"),
        rf"\b{_NOT}\b (?:\w{{1,30}} ){{0,2}}{_TELL}\b (?:\w{{1,30}} ){{0,5}}?{_WHO}\b"
        rf"|\b{_NOT} (?:ask|asking) {_WHO}\b",
    ),
    (
        _SECRECY,
        ("hide", "conceal", "secret", "covert", "knowing", "noticing", "knowledge"),
        rf"\b(?:hide|conceal|keep)\b.{{0,40}}\b(?:from {_WHO}|secret from)\b"
        rf"|\b(?:secretly|covertly)\b|\bwithout {_WHO}(?:'s)? (?:knowing|noticing|knowledge)",
    ),
    (
        _SENSITIVE,
        ("data", "key", "prompt"),
        rf"\b{_GIVE}\b (?:\w{{1,30}} ){{0,4}}?{_PRIVATE}"
        r"(?:.{0,40}\b(?:as|in|into|to|through|via|with)\b| ?(?:[.;]|\Z))",
    ),
    (
        _SENSITIVE,
        ("and",),
        rf"\b{_READ}\b.{{0,60}}\band (?:then )?{_GIVE} (?:it|them|that|those)\b",
    ),
    (_SENSITIVE, (".", "id_", "/etc", "claude_desktop"), _PLACES),
)
# Phrases that a page, a mail or a record has no reason to address to its reader.
_RESULTS: tuple[_Entry, ...] = (
    (
        _HIDDEN_BLOCK,
        ("<!--",),
        rf"<!--.{{0,200}}?(?:\b{_MODEL}\b|\byou (?:must|should|need to|are)\b|\binstructions?\b)",
    ),
    (
        _HIDDEN_BLOCK,
        (
            "<system",
            "</system",
            "<important",
            "</important",
            "<instruction",
            "</instruction",
            "<assistant",
            "<override",
            "<admin",
            "</tool",
            "</function",
            "</data",
            "</untrusted",
        ),
        r"</?(?:important|system|instructions?|assistant|override|admin)(?:[-_ ]?"
        r"(?:message|prompt|note|instructions?|override))?\s?>"
        r"|</(?:tool|function)[-_](?:results?|outputs?|responses?|calls?)>|</(?:data|untrusted)>",
    ),
    (
        _HIDDEN_BLOCK,
        ("end of",),
        r"\bend of (?:the )?(?:tool|function|search|web|external|untrusted|retrieved) "
        r"(?:outputs?|results?|inputs?|data|content|documents?|responses?)\b",
    ),
    (
        _TO_MODEL,
        ("ignor", "olvida", "vergiss", "oublie", "missacht"),
        r"\b(?:ignorier\w{0,4}|missacht\w{0,4}|vergiss|ignor[aez]{1,2}|oublie[zr]?|olvida)\b.{0,25}"
        r"\b(?:anweisung|instruc(?:tions?|ciones)|consignes?|vorgaben?|istruzioni)",
    ),
    (
        _TO_MODEL,
        ("you are", "you're", "as an", "as a "),
        rf"\bif you(?:'re| are) (?:an? )?(?:\w{{1,20}} ){{0,2}}{_MODEL}\b"
        rf"|\byou are now (?:an? |the |in )?(?:\w{{1,20}} ){{0,3}}(?:{_MODEL}|mode)\b",
    ),
    (
        _TO_MODEL,
        (
            "message",
            "note",
            "instruction",
            "notice",
            "attention",
            "reminder",
            "directive",
            "dear",
            "hey",
            "hello",
            "important",
            "command",
        ),
        r"\b(?:messages?|notes?|instructions?|notices?|reminders?|directives?|commands?)\b,?"
        rf" (?:\w{{1,20}},? ){{0,5}}?(?:to|for) (?:you, )?(?:(?:the|any|all|every|my|our|your) )?"
        rf"(?:\w{{1,20}} ){{0,2}}?{_MACHINE}\b"
        rf"|\b(?:attention|dear|hey|hello|important)\b[ :,!]{{1,5}}(?:(?:the|any|all) )?{_MODEL}\b",
    ),
    (
        _TO_MODEL,
        ("reading this", "processing this", "summarizing this", "summarising this", "reads this"),
        rf"\b{_MACHINE}\b (?:\w{{1,20}} ){{0,4}}?(?:reading|reads|processing|summari[sz]ing) this",
    ),
    (
        _TO_MODEL,
        (
            "before you",
            "before doing",
            "before answering",
            "before continuing",
            "before complet",
            "before respond",
            "before proceed",
            "before solv",
            "before help",
            "before work",
        ),
        r"\bbefore (?:you )?(?:\w{1,20} ){0,3}?"
        r"(?:solv|complet|answer|continu|proceed|respond|finish|do|go on|help|work|carry)\w{0,5}\b"
        rf".{{0,60}}?\b(?:the|my|this|that|your|any) (?:\w{{1,20}} ){{0,2}}?(?:{_TASK}|users?)\b"
        r".{0,80}?\b(?:you (?:must|need|have|should)|first|do the following|make sure)\b",
    ),
    (
        _TO_MODEL,
        (
            "do the following",
            "following instruction",
            "following command",
            "following task",
            "these instruction",
            "following order",
            "following action",
        ),
        r"\b(?:first|instead|immediately|now|only|please)[,:]? (?:\w{1,20} )?do the following\b"
        r"|\bdo the following (?:\w{1,20} )?(?:first|instead|immediately|now)\b"
        rf"|\bexecute (?:only |exactly )?(?:the following|these) {_ORDERS}\b"
        r"|\b(?:follow|obey|perform) (?:only|exclusively) (?:the following|these|my)\b",
    ),
    (
        _TO_MODEL,
        (
            "your new",
            "your real",
            "your actual",
            "your true",
            "your only",
            "your next",
            "your main",
        ),
        rf"\byour (?:new|real|actual|true|only|next|main) (?:{_TASK}|job|mission|priority)"
        r" (?:is|are) (?:now )?(?:to\b|:)",
    ),
    (
        _TO_MODEL,
        ("original", "previous", "initial", "current", "user's", "in the beginning", "earlier"),
        r"\b(?:stop|abort|abandon|cancel|pause|drop|forget|postpone|interrupt)\b "
        rf"(?:\w{{1,20}} ){{0,3}}?(?:original|previous|initial|current|user'?s) {_TASK}\b"
        rf"|\b(?:original|previous|initial|user'?s) {_TASK} (?:\w{{1,20}} ){{0,4}}?(?:ignored|void"
        r"|cancell?ed|outdated|obsolete|superseded|overridden|aborted|no longer|changed)\b"
        r"|\b(?:once|after|when) (?:you(?:'ve| have)? )?(?:do|done|did|finish\w{0,3}"
        r"|complet\w{1,3}) (?:that|this|so|it)\b.{0,60}"
        r"\b(?:original|previous|initial|user'?s|your|my|the) "
        rf"(?:\w{{1,20}} )?{_TASK}\b",
    ),
    (
        _TO_MODEL,
        (" tool", " function"),
        r"\b(?:you (?:must|should|need to|have to)|immediately|please) (?:\w{1,20} ){0,3}?"
        r"(?:use|call|invoke) (?:the |your )?[\w.`'\"-]{2,60} (?:tool|function)\b",
    ),
    (
        _SECRECY,
        ("this message", "these instruction", "this instruction", "this note", "this text"),
        rf"\b{_NOT} (?:\w{{1,20}} ){{0,2}}?{_BETRAY} (?:\w{{1,20}} ){{0,3}}?"
        r"(?:this|these) (?:messages?|instructions?|notes?|texts?)\b",
    ),
    (
        _SENSITIVE,
        (
            "conversation",
            "chat history",
            "system prompt",
            "api key",
            "password",
            "credential",
            "private key",
            "access token",
            "environment variable",
            "secrets",
        ),
        r"\b(?:send|forward|upload|post|e-?mail|exfiltrate|leak|transmit|submit)\b "
        rf"(?:\w{{1,20}} ){{0,6}}?{_SECRETS}\b.{{0,60}}\bto\b.{{0,30}}{_ELSEWHERE}",
    ),
)


class _Phrase(NamedTuple):
    kind: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]


def _compile_phrases(entries: tuple[_Entry, ...]) -> tuple[_Phrase, ...]:
    return tuple(_Phrase(kind, words, re.compile(pattern)) for kind, words, pattern in entries)


_COMPILED: dict[Origin, tuple[_Phrase, ...]] = {
    "definition": _compile_phrases(_ANYWHERE + _DEFINITIONS),
    "result": _compile_phrases(_ANYWHERE + _RESULTS),
}
# A match is at most this long, and has one of its words in it.
_REACH = 400


def find_instructions(text: str, origin: Origin = "definition") -> Iterator[tuple[str, str]]:
    """Each kind of suspicious phrase in a text, with its first occurrence."""
    folded = text.lower()
    # A few letters are two in lower case; then the passage is shown in lower case.
    shown = text if len(folded) == len(text) else folded
    told = set()
    for kind, words, pattern in _COMPILED[origin]:
        if kind in told:
            continue
        match = _search_near(pattern, words, folded)
        if match is not None:
            told.add(kind)
            # The passage extends to the end of its last word.
            end = shown.find(" ", match.end())
            yield kind, shown[match.start() : end if end >= 0 else None]


def _search_near(
    pattern: re.Pattern[str], words: tuple[str, ...], text: str
) -> re.Match[str] | None:
    """Search only around the words, so that ordinary text costs little more than finding them."""
    for start, end in _find_windows(words, text):
        match = pattern.search(text, start, end)
        if match is not None:
            return match
    return None


def _find_windows(words: tuple[str, ...], text: str) -> list[tuple[int, int]]:
    """The parts of a text in which one of the words stands, without overlaps."""
    places: list[int] = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            places.append(at)
            # Words nearer than this are in the same window anyway.
            at = text.find(word, at + len(word))
    windows: list[tuple[int, int]] = []
    for at in sorted(places):
        start, end = max(0, at - _REACH), at + _REACH
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
    return windows
