"""Errors of images. Users see their messages, which say what to do."""


class ImageError(Exception):
    """The image cannot be used, and trying again does not help."""


class RegistryUnavailable(ImageError):
    """The registry does not respond, or only with an error of its own: try again later."""
