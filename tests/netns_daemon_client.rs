//! A stock OpenVPN client whose data path is the gateway, with a stock server that has its own or a gateway too: both IP versions
//! outside and inside, each cipher.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Path, connects};

#[test]
fn over_ipv4_with_aes_128() {
    connects(
        "over_ipv4_with_aes_128",
        Path::Own,
        Path::Offload,
        "AES-128-GCM",
        false,
    );
}

#[test]
fn over_ipv4_with_aes_256() {
    connects(
        "over_ipv4_with_aes_256",
        Path::Own,
        Path::Offload,
        "AES-256-GCM",
        false,
    );
}

#[test]
fn over_ipv4_with_chacha20() {
    connects(
        "over_ipv4_with_chacha20",
        Path::Own,
        Path::Offload,
        "CHACHA20-POLY1305",
        false,
    );
}

#[test]
fn over_ipv6_with_aes_128() {
    connects(
        "over_ipv6_with_aes_128",
        Path::Own,
        Path::Offload,
        "AES-128-GCM",
        true,
    );
}

#[test]
fn over_ipv6_with_aes_256() {
    connects(
        "over_ipv6_with_aes_256",
        Path::Own,
        Path::Offload,
        "AES-256-GCM",
        true,
    );
}

#[test]
fn over_ipv6_with_chacha20() {
    connects(
        "over_ipv6_with_chacha20",
        Path::Own,
        Path::Offload,
        "CHACHA20-POLY1305",
        true,
    );
}

#[test]
fn both_ends_over_ipv4_with_aes_256() {
    connects(
        "both_ends_over_ipv4_with_aes_256",
        Path::Offload,
        Path::Offload,
        "AES-256-GCM",
        false,
    );
}

#[test]
fn both_ends_over_ipv6_with_chacha20() {
    connects(
        "both_ends_over_ipv6_with_chacha20",
        Path::Offload,
        Path::Offload,
        "CHACHA20-POLY1305",
        true,
    );
}
