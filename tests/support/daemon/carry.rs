//! A client connects to a server, and they carry traffic of every kind.

use super::{Daemon, Flow, Iperf, Net, Path, Plan, client, server, server_address};
use std::net::IpAddr;

/// Arguments of pings that are answered soon. All leave at once, since ping waits for the last answer no longer than for one interval.
const PINGS: [&str; 5] = ["-q", "-c50", "-l50", "-i5", "-s1000"];

/// The whole of it, over IPv4 or IPv6, where the server's data channel is at `here` and the client's at `there`.
pub fn connects(name: &str, here: Path, there: Path, cipher: &str, over_ipv6: bool) {
    let plan = Plan {
        server: here,
        clients: &[there],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        let mut here = server(&net.server, 0).cipher(cipher);
        let mut there = client(&net.clients[0], 0).cipher(cipher);
        if over_ipv6 {
            here = here.proto("udp6");
            there = there.over_ipv6(0);
        }
        let mut here = here.start();
        here.connected();
        let mut there = there.start();
        there.connected();
        carries(net, &there);
        here.assert_path();
        there.assert_path();
        let status = here.status();
        let row = status
            .client("client0")
            .unwrap_or_else(|| panic!("{}", status.text));
        assert_eq!(row.cipher, cipher);
        let offloaded = u64::from(here.path() == Path::Offload);
        assert_eq!(
            status.numbers.get("dco_enabled"),
            Some(&offloaded),
            "{}",
            status.text
        );
        there.end();
        here.end();
    });
}

/// Pings both ways in both IP versions, TCP both ways, and UDP both ways, of which nothing is lost.
fn carries(net: &Net, there: &Daemon) {
    let (client, server) = (&net.clients[0], &net.server);
    let [four, six] = [false, true].map(|v6| server_address(0, v6));
    for to in [four, six] {
        client.wait_ping(to);
        client.ping(to, &PINGS).assert_all();
    }
    for v6 in [false, true] {
        server.ping(there.vpn(v6), &PINGS).assert_all();
    }
    let flow = |address: IpAddr, arguments: &'static [&'static str]| Flow {
        from: client,
        to: server,
        address,
        arguments,
    };
    // One after the other: TCP fills the queues that UDP would need.
    for tcp in Iperf::all(&[flow(four, &["-t", "1"]), flow(six, &["-t", "1", "-R"])]) {
        assert!(tcp.received >= 1_000_000, "{}", tcp.report["end"]);
    }
    let udp = [
        flow(six, &["-u", "-b", "2M", "-t", "1", "-l", "1200"]),
        flow(four, &["-u", "-b", "2M", "-t", "1", "-l", "1200", "-R"]),
    ];
    net.lossless(&udp, 200_000);
}
