"""The error types of the package, by who is at fault."""


class ExportError(ValueError):
    """The model cannot be exported; the message names what is at fault."""


class PlanError(ValueError):
    """A plan cannot be used: the file is damaged, or it belongs to another model or mesh. The message names the first
    fault."""
