# Empty dependencies file for headers_release.
# This may be replaced when dependencies are built.
