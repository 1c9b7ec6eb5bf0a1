#!/bin/sh
# Copies commands, manual pages and completion: ./install.sh [DIR], by default to /usr/local.
set -e
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-/usr/local}
mkdir -p "$to"
cp -R -P "$here/bin" "$here/share" "$to"
echo "lockstep $("$to/bin/lockstep" version | head -n 1 | sed 's/.* //') is in $to/bin"
