"""Pages for browsers, as files. The page of interactive documentation is `docs.html`."""
