"""Adapters to other libraries, each an optional extra imported in one module."""
