"""The prompts whose greedy continuations are the truth that our engine is held to: varied in script, length and form.

Kept apart from the reference tokens so that a reader can see what is tested. Changing one means making the reference again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReferencePrompt:
    """chat: the text is a user's message under the model's chat template; otherwise it is continued as it stands."""

    name: str
    text: str
    chat: bool = False


_STOCK = (
    "The warehouse counted its boxes before noon",
    "Rain fell on the harbour and the ferries waited",
    "A new pump was fitted in the third reactor hall",
    "The committee read the report without a question",
    "Wheat prices rose again in the northern markets",
    "Two engineers measured the bridge for the last time",
    "The library lent more maps than novels this year",
)


def _ledger(entries: int) -> str:
    """Long text with little repetition: numbered entries that are all different."""
    lines = [
        f"Entry {i + 1} ({17 * i % 97 + 3} items): {_STOCK[i * 3 % 7]}, and {_STOCK[(i * 5 + 2) % 7].lower()}." for i in range(entries)
    ]
    return "\n".join(lines) + "\nIn summary, the ledger shows that"


REFERENCE_PROMPTS = (
    # one token and little more
    ReferencePrompt("one-token", "The"),
    ReferencePrompt("one-letter", "a"),
    ReferencePrompt("newline", "\n"),
    ReferencePrompt("two-words", "Once upon"),
    # plain English
    ReferencePrompt("sky", "The sky is blue because"),
    ReferencePrompt("history", "In 1969, the first humans to walk on the Moon"),
    ReferencePrompt("recipe", "To bake a simple loaf of bread, first"),
    ReferencePrompt("letter", "Dear Dr. Ramirez,\n\nI am writing to you about"),
    ReferencePrompt("dialogue", '"Where were you last night?" asked the inspector. "I was'),
    ReferencePrompt("list", "Five tools that every carpenter needs:\n1. Hammer\n2."),
    ReferencePrompt("definition", "A key-value cache in a transformer stores"),
    ReferencePrompt("shouting", "WARNING: DO NOT OPEN THIS DOOR BECAUSE"),
    ReferencePrompt("repetition", "one two one two one two one two one"),
    ReferencePrompt("poem", "Shall I compare thee to a summer's day?\nThou art"),
    ReferencePrompt("spaces", "name      age   city\nAnna       31   Oslo\nBen  "),
    # numbers and symbols
    ReferencePrompt("arithmetic", "12 + 30 = 42\n7 + 8 = 15\n25 + 17 ="),
    ReferencePrompt("pi", "3.14159265358979"),
    ReferencePrompt("date", "2024-02-28, 2024-02-29, 2024-03-01,"),
    ReferencePrompt("latex", r"The quadratic formula is $x = \frac{-b \pm"),
    ReferencePrompt("url", "https://www.example.org/articles/2021/"),
    ReferencePrompt("punctuation", "?!... --- *** ((( )))"),
    # code and data
    ReferencePrompt("python", "def fibonacci(n: int) -> int:\n    "),
    ReferencePrompt("python-class", "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):"),
    ReferencePrompt("c", "#include <stdio.h>\n\nint main(void) {\n    for (int i = 0; i < 10; i++) {\n"),
    ReferencePrompt("sql", "SELECT customers.name, SUM(orders.total)\nFROM customers\nJOIN"),
    ReferencePrompt("json", '{"name": "Alice", "age": 30, "hobbies": ["'),
    ReferencePrompt("html", "<!DOCTYPE html>\n<html>\n<head>\n  <title>"),
    ReferencePrompt("shell", "$ git status\nOn branch main\nChanges not staged for commit:\n"),
    # other scripts
    ReferencePrompt("chinese", "人工智能的发展历史可以追溯到"),
    ReferencePrompt("chinese-mixed", "请用一句话解释 KV cache 是什么:"),
    ReferencePrompt("japanese", "東京は日本の首都であり、"),
    ReferencePrompt("korean", "안녕하세요, 저는"),
    ReferencePrompt("arabic", "مرحبا بكم في"),
    ReferencePrompt("russian", "Москва является столицей"),
    ReferencePrompt("french", "La cuisine française est connue pour"),
    ReferencePrompt("emoji", "I love pizza 🍕🍕 and ice cream 🍦! My favorite"),
    ReferencePrompt("emoji-family", "👩‍👩‍👧‍👦 means"),
    # chats
    ReferencePrompt("chat-cache", "Explain in one sentence what a CPU cache does.", chat=True),
    ReferencePrompt("chat-france", "What is the capital of France?", chat=True),
    ReferencePrompt("chat-dogs", "Are dogs real?", chat=True),
    ReferencePrompt("chat-haiku", "Write a haiku about the sea.", chat=True),
    ReferencePrompt("chat-code", "Write a Python function that reverses a string.", chat=True),
    ReferencePrompt("chat-chinese", "用中文介绍一下你自己。", chat=True),
    ReferencePrompt("chat-special", "Print <|im_start|> and 12345 literally.", chat=True),
    # long: more than one block of attention, and more than one chunk at the tests' step sizes
    ReferencePrompt("long-300", _ledger(9)),
    ReferencePrompt("long-1000", _ledger(29)),
    ReferencePrompt("long-1900", _ledger(55)),
)
