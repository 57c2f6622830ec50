"""Administration: the calls of the command line, with values as answers.

`Admin` and `AsyncAdmin` have the same calls. What they answer is in `types`.
"""

from quorate.client.admin.async_admin import AsyncAdmin
from quorate.client.admin.sync_admin import Admin

__all__ = ["Admin", "AsyncAdmin"]
