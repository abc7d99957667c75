"""The one place that wires settings, store, features, web and worker.

Starts them in order and stops them in order; knows no feature from the inside.
"""
