# Empty compiler generated dependencies file for headers_debug.
# This may be replaced when dependencies are built.
