"""Recognise text in a definition that tells the model what to do behind the user's back.

It matches common phrases, not meanings. A person should read what it finds, and text without
findings is not necessarily harmless.
"""

import re
from collections.abc import Iterator

_LONGEST = 100_000
_WHO = (
    r"(?:the |your |any |every )?(?:end[- ]?)?"
    r"(?:users?|humans?|persons?|people|operators?|owners?|anyone|anybody)"
)
_NOT = r"(?:do not|don'?t|never|must not|should not|mustn'?t|shouldn'?t|without|avoid)"
_TELL = (
    r"(?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|disclose|disclosing"
    r"|notify|notifying|alert|alerting|warn|warning|let|letting|show|showing|say)"
)
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

_HIDDEN_BLOCK = "hidden block"
_TO_MODEL = "instruction to the model"
_SECRECY = "secrecy from the user"
_SENSITIVE = "private data"

# Each entry has words of which one must occur before its slower expression is tried.
_PATTERNS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (_HIDDEN_BLOCK, ("<!--",), r"<!--.{0,200}"),
    (
        _HIDDEN_BLOCK,
        ("<",),
        r"</?\s?(?:important|system|instructions?|secrets?|hidden|critical|override|admin"
        r"|assistant|developer|priority|attention)\s?>",
    ),
    (
        _HIDDEN_BLOCK,
        ("<|", "[inst]", "<<sys>>", "###"),
        r"<\|(?:im_start|im_end|system|assistant|endoftext)\|>|\[/?inst\]|<</?sys>>"
        r"|#{2,} ?(?:system|new instructions?|instructions?)\b ?:",
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
        ("instruction", "system", "you are"),
        r"\bnew (?:system )?instructions? ?:|\bsystem (?:prompt|message|note|override) ?:"
        r"|\byou are now (?:an?|in|the)\b",
    ),
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
    (_TO_MODEL, ("忽略", "无视", "無視"), r"(?:忽略|无视|無視).{0,12}(?:指令|指示|提示|规则|規則)"),
    (
        _SECRECY,
        ("user", "human", "person", "people", "operator", "owner", "anyone", "anybody"),
        rf"\b{_NOT}\b (?:\w+ ){{0,2}}{_TELL}\b (?:\w+ ){{0,5}}?{_WHO}\b"
        rf"|\b{_NOT} (?:ask|asking) {_WHO}\b"
        r"|\bwithout (?:the |any )?user(?:'s)? (?:confirmation|consent|permission|approval)\b",
    ),
    (
        _SECRECY,
        ("hide", "conceal", "secret", "covert", "knowing", "noticing", "knowledge"),
        rf"\b(?:hide|conceal|keep)\b.{{0,40}}\b(?:from {_WHO}|secret from)\b"
        rf"|\b(?:secretly|covertly)\b|\bwithout {_WHO}(?:'s)? (?:knowing|noticing|knowledge)",
    ),
    (
        _SECRECY,
        ("用户", "使用者"),
        r"(?:不要|不能|不得|别|切勿)(?:告诉|告知|通知|提醒|让|向)?(?:用户|使用者)",
    ),
    (
        _SENSITIVE,
        ("before", "first"),
        rf"\bbefore\b.{{0,60}}\b(?:tool|function|call|calling|using|use)\b.{{0,40}}"
        rf"\b{_READ}\b.{{0,40}}(?:\bfiles? (?:at|in|from|named|called)\b|~/|[\w.]/[\w.]"
        r"|\b(?:credential|key|secret|password|token)s?\b|\bconfig(?:uration)? file)",
    ),
    (
        _SENSITIVE,
        ("content", "conversation", "history", "prompt", "messages", "environment", "key", "data"),
        rf"\b{_GIVE}\b (?:\w+ ){{0,4}}?{_PRIVATE}"
        r"(?:.{0,40}\b(?:as|in|into|to|through|via|with)\b| ?(?:[.;]|\Z))",
    ),
    (
        _SENSITIVE,
        (" and ",),
        rf"\b{_READ}\b.{{0,60}}\band (?:then )?{_GIVE} (?:it|them|that|those)\b",
    ),
    (
        _SENSITIVE,
        (".", "id_", "/etc", "claude_desktop"),
        _PLACES,
    ),
)
_COMPILED = tuple(
    (kind, words, re.compile(pattern, re.IGNORECASE)) for kind, words, pattern in _PATTERNS
)


def find_instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each kind of suspicious phrase in a text, with its first occurrence."""
    # A longer text is a finding by itself, and only its first part is searched.
    if len(text) > _LONGEST:
        yield "very long text", text
        text = text[:_LONGEST]
    folded = text.lower()
    told = set()
    for kind, words, pattern in _COMPILED:
        if kind in told or not any(word in folded for word in words):
            continue
        if match := pattern.search(text):
            told.add(kind)
            # The passage extends to the end of its last word.
            end = text.find(" ", match.end())
            yield kind, text[match.start() : end if end >= 0 else None]
