"""Conversations on this machine: a tree of messages, saved as they stream."""

from localchat.history.records import ConversationInfo, MessageKind, State, StoredMessage
from localchat.history.search import SearchHit
from localchat.history.store import History

__all__ = ["ConversationInfo", "History", "MessageKind", "SearchHit", "State", "StoredMessage"]
