"""The responses of the service as types."""
