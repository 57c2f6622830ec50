"""One file per call. A handler is a plain class: a message in, a message out, no transport."""
