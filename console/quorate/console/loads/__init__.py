"""``quorate topic describe --load``: what is written to each partition now, and which keys weigh most."""
