"""The data behind a name, in the browser: a small read-only server on this machine, and the page that it serves.

``app`` routes, ``guard`` refuses strangers, ``parameters`` looks at what was asked before anything is read, and each
kind of page has a module. Imported when somebody asks for a view.
"""
