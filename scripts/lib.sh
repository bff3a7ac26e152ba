# What the scripts share; sourced by bash, with `set -euo pipefail` on.

# The top of the checkout.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The oldest Rust that builds this (rust-version in Cargo.toml).
RUST_MIN=$(sed -n 's/^rust-version *= *"\([0-9.]*\)"$/\1/p' "$ROOT/Cargo.toml")

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    RED=$'\e[31m' GREEN=$'\e[32m' YELLOW=$'\e[33m' PLAIN=$'\e[0m'
else
    RED='' GREEN='' YELLOW='' PLAIN=''
fi

# die LINE: one error line, then status 1.
die() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    exit 1
}

# at_least VERSION MINIMUM
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# The version of the cargo that would run, or nothing.
cargo_version() {
    # From the root of the file system, where no rust-toolchain file can change the answer.
    (cd / && cargo --version 2>/dev/null) | sed -n 's/^cargo \([0-9.]*\).*/\1/p'
}

# Puts a cargo that is new enough first on PATH: the one there, else rustup's in the home folder. Status 1 if neither is.
use_cargo() {
    local version
    version=$(cargo_version)
    if [ -n "$version" ] && at_least "$version" "$RUST_MIN"; then return 0; fi
    [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ] || return 1
    local before=$PATH
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    version=$(cargo_version)
    if [ -n "$version" ] && at_least "$version" "$RUST_MIN"; then
        export PATH
        return 0
    fi
    PATH=$before
    return 1
}
