"""The ``quorate`` command line.

``main`` turns errors into exit statuses, ``commands`` holds one file per command group. Command
modules import only click at the top; whatever is heavy (gRPC, rich, storage) is imported inside the
function that needs it, so that ``quorate --version`` and shell completion answer at once.
"""
