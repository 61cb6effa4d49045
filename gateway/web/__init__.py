"""Pages for browsers: the web page in `page/`, and the interactive API documentation in `docs.html`.

Belongs here: the files of the page, and the routes that only the page uses. Not here: routes that other
clients use, too, which are part of the contract (`operations.py`). Read first: `page_routes.py`.
"""
