"""Manifests and lock files, versions and ranges of package ecosystems.

Knows neither the service nor the fixer; both import it. Standard library only, because the fixer
runs in sandboxes that have nothing else.
"""
