"""Durable, inspectable workflow state for AI agents, kept in Git."""

__version__ = "0.1.0"
