"""Webhooks in web frameworks. Import the module of yours; this package requires none of them."""
