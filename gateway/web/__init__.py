"""Pages for browsers: the one for people in `page/`, and the interactive documentation in `docs.html`.

Belongs here: the files of the page, and the routes that only it uses. Not here: what other clients can use as
well, which is part of the contract (`operations.py`). Read first: `page_routes.py`.
"""
