"""Labels that come late are joined to their predictions."""
