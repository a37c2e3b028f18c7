"""The operations of a decode step by hand; parts, injections and causes go by these names."""

from __future__ import annotations

OPERATIONS = ("append", "qk", "softmax", "pv")
ATTENTION = frozenset({"qk", "softmax", "pv"})
