"""Manifests and lock files, versions, advisories and fixes of package ecosystems.

Knows no other part of the product. Formats, versions and fixes use the standard library only,
because the fixer runs in sandboxes that have nothing else.
"""
