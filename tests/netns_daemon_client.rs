//! A stock OpenVPN client whose data path is the gateway, with a stock server that has its own or a gateway too: both IP versions
//! outside and inside, each cipher.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{ByteCount, Daemon, Management, Net, Path, Plan, client, connects, server, server_address};

/// Bytes of an IPv4 packet with an echo request, and how many of them are counted.
const COUNTED: (u64, u64) = (1000, 100);
/// Bytes of a record around its inner packet: opcode, key id and peer id, packet id, tag.
const RECORD: u64 = 4 + 4 + 16;

/// What the client's management interface and status file say of 100 packets of 1000 bytes each way.
fn counts(name: &str, path: Path) {
    let plan = Plan {
        server: Path::Own,
        clients: &[path],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        // Nothing but what is counted: no pings, no IPv6.
        net.clients[0].no_ipv6_at_first();
        net.server.no_ipv6_at_first();
        let here = server(&net.server, 0)
            .set("keepalive", "60 240")
            .without("server-ipv6");
        let mut here = here.start();
        here.connected();
        let mut there = client(&net.clients[0], 0).start();
        there.connected();
        net.clients[0].wait_ping(server_address(0, false));
        let mut management = there.management();
        management.command("bytecount 1");
        let before = settled(&mut management);
        let tunnel_before = tunnel_counts(&there);
        // So many at once as the buffer of a socket holds.
        let (size, burst) = ((COUNTED.0 - 28).to_string(), (COUNTED.1 / 2).to_string());
        let arguments = ["-q", "-c", &burst, "-l", &burst, "-i5", "-s", &size];
        for _ in 0..2 {
            net.clients[0]
                .ping(server_address(0, false), &arguments)
                .assert_all();
        }
        let records = COUNTED.1 * (COUNTED.0 + RECORD);
        let after = management.byte_count(0, |count| count.sent >= before.sent + records);
        let grown = [after.received - before.received, after.sent - before.sent];
        assert_eq!(grown, [records; 2], "before {before:?}, after {after:?}");
        let tunnel_after = tunnel_counts(&there);
        let grown = [0, 1].map(|i| tunnel_after[i] - tunnel_before[i]);
        assert_eq!(
            grown,
            [COUNTED.1 * COUNTED.0; 2],
            "before {tunnel_before:?}, after {tunnel_after:?}"
        );
    });
}

/// The client's counts, once the connection has been made and nothing of it comes any more.
fn settled(management: &mut Management) -> ByteCount {
    let mut last = management.byte_count(0, |_| true);
    loop {
        let next = management.byte_count(0, |_| true);
        if next == last {
            return next;
        }
        last = next;
    }
}

/// By the client's status file: bytes of inner packets that it sent, and that it received.
fn tunnel_counts(there: &Daemon) -> [u64; 2] {
    let status = there.status();
    ["TUN/TAP read bytes", "TUN/TAP write bytes"].map(|name| {
        *status
            .numbers
            .get(name)
            .unwrap_or_else(|| panic!("{}", status.text))
    })
}

#[test]
fn all_counts_agree() {
    counts("all_counts_agree", Path::Offload);
}

#[test]
fn all_counts_agree_with_the_daemons_own_data_path() {
    counts("all_counts_agree_with_the_daemons_own_data_path", Path::Own);
}

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
