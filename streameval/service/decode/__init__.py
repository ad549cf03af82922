"""Messages and lines decoded to event columns."""
