//! Stock OpenVPN clients with their own data path, and a stock OpenVPN server whose data path is the gateway: both IP versions
//! outside and inside, each cipher, and the counts of what was carried.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{
    ClientRow, Daemon, Flow, Management, Net, Path, Plan, StatusFile, client, connects, server,
    server_address,
};

/// Bytes of an IPv4 packet with an echo request, and how many of them are counted.
const COUNTED: (u64, u64) = (1000, 100);
/// Bytes of a record around its inner packet: opcode, key id and peer id, packet id, tag.
const RECORD: u64 = 4 + 4 + 16;

/// The row of the one client.
fn row(daemon: &Daemon) -> ClientRow {
    let status = daemon.status();
    let row = status.client("client0").cloned();
    row.unwrap_or_else(|| panic!("{}", status.text))
}

/// The row of the one client, once the connection has been made and nothing of it comes any more.
fn settled(daemon: &Daemon) -> ClientRow {
    let mut last = None;
    loop {
        let status = daemon.status();
        let row = status.client("client0").cloned();
        let counts = row.as_ref().map(|row| (row.received, row.sent));
        if counts.is_some() && counts == last {
            return row.expect("it has counts");
        }
        last = counts;
    }
}

/// What the server's status file, its management interface and the gateway say of 100 packets of 1000 bytes each way, and
/// of what iperf3 sent.
fn counts(name: &str, path: Path) {
    let plan = Plan {
        server: path,
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
        let mut management = here.management();
        management.command("bytecount 1");
        let before = (settled(&here), gateway_counts(net));
        pings(net, COUNTED.1);
        let after = (row(&here), gateway_counts(net));
        pings_are_counted(&before, &after);
        let told = StatusFile::parse(management.command("status 2").join("\n"));
        let told = told.client("client0").unwrap_or_else(|| panic!("{}", told.text));
        assert_eq!((told.received, told.sent), (after.0.received, after.0.sent));
        if path.chosen() == Path::Own {
            notifications_count(net, &mut management, &after.0);
        }
        iperf_is_counted(net, &here);
    });
}

/// What `bytecount` makes the management interface say of a client. With an offload OpenVPN 2.6 says such only when it has a
/// packet of its own to send or read, and counts no other.
fn notifications_count(net: &Net, management: &mut Management, last: &ClientRow) {
    // It comes with a packet, so maybe before the answer was sent.
    pings(net, 1);
    let one = COUNTED.0 + RECORD;
    let counted = management.byte_count(last.client, |count| count.received >= last.received + one);
    assert_eq!(counted.received, last.received + one);
    assert!(
        [last.sent, last.sent + one].contains(&counted.sent),
        "{counted:?}, {last:?}"
    );
}

/// So many echo requests of the counted size to the server, and as many replies.
fn pings(net: &Net, count: u64) {
    let size = (COUNTED.0 - 28).to_string();
    // So many at once as the buffer of a socket holds.
    for burst in [count / 50 * 50, count % 50]
        .into_iter()
        .flat_map(|n| std::iter::repeat_n(n.min(50), n.div_ceil(50) as usize))
    {
        let burst = burst.to_string();
        let arguments = ["-q", "-c", &burst, "-l", &burst, "-i5", "-s", &size];
        net.clients[0]
            .ping(server_address(0, false), &arguments)
            .assert_all();
    }
}

/// The row of the status file, and what the gateway says if there is one.
type Counts = (ClientRow, Option<[u64; 8]>);

/// The pings were counted, and nothing else.
fn pings_are_counted((row_before, before): &Counts, (row_after, after): &Counts) {
    let (records, inner) = (COUNTED.1 * (COUNTED.0 + RECORD), COUNTED.1 * COUNTED.0);
    let grown = [
        row_after.received - row_before.received,
        row_after.sent - row_before.sent,
    ];
    assert_eq!(grown, [records; 2], "before {row_before:?}, after {row_after:?}");
    if let (Some(before), Some(after)) = (before, after) {
        let grown: Vec<u64> = after
            .iter()
            .zip(before)
            .map(|(after, before)| after - before)
            .collect();
        let expected = [
            COUNTED.1, records, COUNTED.1, records, COUNTED.1, inner, COUNTED.1, inner,
        ];
        assert_eq!(grown, expected, "before {before:?}, after {after:?}");
    }
}

/// What iperf3 sends by UDP is counted, and not much more: iperf3 has a TCP connection besides.
fn iperf_is_counted(net: &Net, here: &Daemon) {
    let before = (row(here), gateway_counts(net));
    let flow = Flow {
        from: &net.clients[0],
        to: &net.server,
        address: server_address(0, false),
        arguments: &["-u", "-b", "4M", "-n", "600000", "-l", "1200"],
    };
    // The receiver is asked when the sender has done, and may have to read some more.
    let transfer = net.lossless(&[flow], 500_000).remove(0);
    let after = (row(here), gateway_counts(net));
    let (least, most) = (transfer.received, transfer.sent + 20_000);
    let about = |what: &str, header: u64, before: u64, after: u64| {
        let grown = after - before;
        let [least, most] = [least, most].map(|bytes| bytes + bytes / 1200 * header);
        assert!(
            (least..most).contains(&grown),
            "{what}: {grown} counted, {transfer:?}"
        );
    };
    about(
        "the status file",
        28 + RECORD,
        before.0.received,
        after.0.received,
    );
    if let (Some(before), Some(after)) = (before.1, after.1) {
        about("link_rx_bytes", 28 + RECORD, before[1], after[1]);
        about("vpn_rx_bytes", 28, before[5], after[5]);
    }
}

/// By `ovpn-dpdk status`, of the one peer: packets and bytes of link_rx, link_tx, vpn_rx and vpn_tx.
fn gateway_counts(net: &Net) -> Option<[u64; 8]> {
    (net.server.path == Path::Offload).then(|| {
        let status = net.server.status();
        assert_eq!(status.code, Some(0), "{status:?}");
        let peer = status.peer("ovpn0", "10.8.0.2");
        let mut counts = [0; 8];
        for (i, count) in counts.iter_mut().enumerate() {
            let (what, unit) = (
                ["link_rx", "link_tx", "vpn_rx", "vpn_tx"][i / 2],
                ["packets", "bytes"][i % 2],
            );
            let number = peer[format!("{what}_{unit}")].as_u64();
            *count = number.unwrap_or_else(|| panic!("no {what}_{unit}: {peer}"));
        }
        counts
    })
}

#[test]
fn over_ipv4_with_aes_128() {
    connects(
        "over_ipv4_with_aes_128",
        Path::Offload,
        Path::Own,
        "AES-128-GCM",
        false,
    );
}

#[test]
fn over_ipv4_with_aes_256() {
    connects(
        "over_ipv4_with_aes_256",
        Path::Offload,
        Path::Own,
        "AES-256-GCM",
        false,
    );
}

#[test]
fn over_ipv4_with_chacha20() {
    connects(
        "over_ipv4_with_chacha20",
        Path::Offload,
        Path::Own,
        "CHACHA20-POLY1305",
        false,
    );
}

#[test]
fn over_ipv6_with_aes_128() {
    connects(
        "over_ipv6_with_aes_128",
        Path::Offload,
        Path::Own,
        "AES-128-GCM",
        true,
    );
}

#[test]
fn over_ipv6_with_aes_256() {
    connects(
        "over_ipv6_with_aes_256",
        Path::Offload,
        Path::Own,
        "AES-256-GCM",
        true,
    );
}

#[test]
fn over_ipv6_with_chacha20() {
    connects(
        "over_ipv6_with_chacha20",
        Path::Offload,
        Path::Own,
        "CHACHA20-POLY1305",
        true,
    );
}

#[test]
fn the_same_with_the_daemons_own_data_path() {
    connects(
        "the_same_with_the_daemons_own_data_path",
        Path::Own,
        Path::Own,
        "AES-256-GCM",
        false,
    );
}

#[test]
fn all_counts_agree() {
    counts("all_counts_agree", Path::Offload);
}

#[test]
fn all_counts_agree_with_the_daemons_own_data_path() {
    counts("all_counts_agree_with_the_daemons_own_data_path", Path::Own);
}
