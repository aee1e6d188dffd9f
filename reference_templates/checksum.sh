#!/bin/sh
# The checksum of a text, as lower-case hexadecimal digits.
#
# A shell definition is one tool, named after its server. Each parameter stands in an
# environment variable of its own name, and in $1, $2, … in the order below. What the
# script prints is the result; any exit code but 0 is an error, with what it wrote to
# standard error as the message.
#
# @param {string} text - The text; its UTF-8 bytes are summed, with nothing added at the end.
# @param {"md5" | "sha1" | "sha224" | "sha256" | "sha384" | "sha512" | "b2"} [algorithm=sha256] - Which sum to take.
# @readOnly
# @idempotent

set -eu

case $algorithm in
  md5 | sha1 | sha224 | sha256 | sha384 | sha512 | b2) ;;
  *)
    echo "unknown algorithm \"$algorithm\": use md5, sha1, sha224, sha256, sha384, sha512 or b2" >&2
    exit 2
    ;;
esac

# printf, not echo: a text may begin with -n or hold backslashes. Quotes keep it one word.
digest=$(printf '%s' "$text" | "${algorithm}sum")
printf '%s\n' "${digest%% *}"
