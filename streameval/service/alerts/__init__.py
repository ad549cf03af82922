"""Rules over metrics, what they raised, and the webhook that is told."""
