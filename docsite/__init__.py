"""The documentation site: pages and figures that are made from the code when it is built.

``make docs`` builds it from ``docs/`` and from what these modules make: the reference of every
public name, metric, option, key, endpoint and series, and the figures. None of these is kept as a
file, so none can differ from the code.
"""
