"""The whole path on real data: a year of flights, an online model, a run to evaluate it."""
