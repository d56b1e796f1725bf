"""The one error type of the package's exporting side."""


class ExportError(ValueError):
    """The model cannot be exported; the message names what is at fault."""
