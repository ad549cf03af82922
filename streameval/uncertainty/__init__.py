"""How sure a metric is: intervals, tests and bounds, functions of states as metrics are."""
