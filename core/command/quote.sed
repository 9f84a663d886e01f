# SPDX-License-Identifier: MIT
# Makes each line a string of C.
s/["\\]/\\&/g
s/^/"/
s/$/\\n"/
