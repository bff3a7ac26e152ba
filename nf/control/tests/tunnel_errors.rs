//! What `[[tunnel]]` and `[[tunnel.peer]]` are refused for, and how the refusal reads.

mod common;

use common::{ALL, LEAST, error, parse, refused};

#[test]
fn tunnels_and_peers() {
    let bad_interfaces = ["", ".", "..", "a/b", "a b", "sixteen-bytes-xx"];
    for bad in bad_interfaces {
        let line = error(&ALL.replace("\"net1\"", &format!("\"{bad}\"")));
        assert!(line.contains("tunnel[0].interface: "), "{line}");
        let line = error(&ALL.replace("\"wan1\"", &format!("\"{bad}\"")));
        assert!(line.contains("host.interface: "), "{line}");
    }
    let line = error(&ALL.replace("\"net1\"", "\"wan1\""));
    assert!(
        line.contains("tunnel[0].interface: \"wan1\" is the same as host.interface"),
        "{line}"
    );
    let line = error(&ALL.replace("\"net_pcap1\"", "\"0000:3b:00.0\""));
    assert!(
        line.contains("tunnel[0].kind: \"0000:3b:00.0\" is the same as nic.port"),
        "{line}"
    );
    let line = error(&ALL.replace("\"net_pcap1\"", "\"tap\""));
    assert!(
        line.contains("tunnel[0].next_hop: allowed only where kind is an EAL port"),
        "{line}"
    );
    let line = error(&ALL.replace("\"net_pcap1\"", "\"kernel\""));
    assert!(
        line.contains("tunnel[0].kind: \"kernel\" is for the host port only"),
        "{line}"
    );
    let line = error(&ALL.replace("mtu = 1400", "mtu = 67"));
    assert!(
        line.contains("tunnel[0].mtu: 67 is out of range: 68 to 9500"),
        "{line}"
    );
    let line = error("[nic]\nport = 'a'\n");
    assert!(
        line.contains("tunnel: at least one [[tunnel]] is needed"),
        "{line}"
    );
}

#[test]
fn values_of_tunnels_and_peers() {
    refused(
        "mode",
        "mode = 'tap'",
        "tunnel[0].mode: \"tap\" is not allowed: \"mp\" or \"p2p\"",
    );
    refused(
        "mss",
        "mss = 87",
        "tunnel[0].mss: 87 is out of range: 88 to 9460, \"auto\" or \"off\"",
    );
    refused("mss", "mss = 'none'", "tunnel[0].mss: \"none\" is not allowed");
    refused(
        "next_hop",
        "next_hop = '01:00:5e:00:00:01'",
        "tunnel[0].next_hop: ",
    );
    refused("id", "", "tunnel[0].peer[0].id: a peer id is needed");
    refused(
        "id",
        "id = 16777215",
        "tunnel[0].peer[0].id: 16777215 is out of range: 0 to 16777214",
    );
    refused("remote", "remote = '0.0.0.0:1'", "tunnel[0].peer[0].remote: ");
    refused(
        "addresses",
        "addresses = ['10.8.0.2', 'host']",
        "tunnel[0].peer[0].addresses[1]: ",
    );
    refused(
        "addresses",
        "addresses = ['224.0.0.1']",
        "tunnel[0].peer[0].addresses[0]: ",
    );
    refused(
        "networks",
        "networks = ['10.77.0.1/24']",
        "networks[0]: \"10.77.0.1/24\" has host bits set; the network is 10.77.0.0/24",
    );
    refused(
        "networks",
        "networks = ['10.77.0.0/33']",
        "tunnel[0].peer[0].networks[0]: ",
    );
    refused(
        "keepalive",
        "keepalive = [10]",
        "tunnel[0].peer[0].keepalive: two numbers of seconds",
    );
    refused(
        "keepalive",
        "keepalive = [10, -1]",
        "tunnel[0].peer[0].keepalive: two numbers of seconds",
    );
    let peer = "[[tunnel.peer]]\nid = 9\n";
    let line = error(&ALL.replace("[control]", &format!("{peer}[control]")));
    assert!(
        line.contains("tunnel[0].peer[1]: a tunnel with mode = \"p2p\" has one peer"),
        "{line}"
    );
}

#[test]
fn listening_addresses() {
    for (listen, says) in [
        ("'192.0.2.1'", "listen[0]: \"192.0.2.1\" is no address"),
        ("'192.0.2.1:0'", "listen[0]: "),
        ("'224.0.0.1:1194'", "listen[0]: "),
        (
            "'192.0.2.1:1', '192.0.2.1:1'",
            "listen[1]: 192.0.2.1:1 overlaps 192.0.2.1:1 of tunnel[0].listen[0]",
        ),
        (
            "'0.0.0.0:1', '192.0.2.1:1'",
            "listen[1]: 192.0.2.1:1 overlaps 0.0.0.0:1",
        ),
    ] {
        let line = error(&format!("{LEAST}listen = [{listen}]\n"));
        assert!(line.contains(&format!("gw.toml: tunnel[0].{says}")), "{line}");
    }
    assert!(
        parse(&format!(
            "{LEAST}listen = ['0.0.0.0:1', '[::]:1', '192.0.2.1:2']\n"
        ))
        .is_ok()
    );
    let second = "listen = ['192.0.2.1:1']\n[[tunnel]]\ninterface = 'ovpn1'\nlisten = ['192.0.2.1:1']\n";
    let line = error(&format!("{LEAST}{second}"));
    assert!(
        line.contains("tunnel[1].listen[0]: 192.0.2.1:1 overlaps 192.0.2.1:1 of tunnel[0].listen[0]"),
        "{line}"
    );
}

#[test]
fn duplicates_between_peers() {
    let peers =
        |first: &str, second: &str| format!("{LEAST}[[tunnel.peer]]\n{first}\n[[tunnel.peer]]\n{second}\n");
    for (first, second, says) in [
        (
            "id = 3",
            "id = 3",
            "peer[1].id: peer id 3 is that of tunnel[0].peer[0] too",
        ),
        (
            "id = 3\naddresses = ['10.8.0.2']",
            "id = 4\naddresses = ['10.8.0.2']",
            "peer[1].addresses[0]: 10.8.0.2/32 of peer 4 is also tunnel[0].peer[0].addresses[0] (peer 3)",
        ),
        (
            "id = 3\nnetworks = ['10.9.0.0/16']",
            "id = 4\nnetworks = ['10.9.0.0/16']",
            "peer[1].networks[0]: 10.9.0.0/16 of peer 4 is also tunnel[0].peer[0].networks[0] (peer 3)",
        ),
        (
            "id = 3\naddresses = ['10.8.0.2']",
            "id = 4\nnetworks = ['10.8.0.2/32']",
            "10.8.0.2/32 of peer 4 is also",
        ),
    ] {
        let line = error(&peers(first, second));
        assert!(line.contains(says), "{line}");
    }
    let nested = peers(
        "id = 3\nnetworks = ['10.9.0.0/16']",
        "id = 4\nnetworks = ['10.9.1.0/24']",
    );
    assert!(parse(&nested).is_ok(), "the longest prefix decides");
    let line = error(&format!("{LEAST}[[tunnel]]\ninterface = 'ovpn0'\n"));
    assert!(
        line.contains("tunnel[1].interface: \"ovpn0\" is the same as tunnel[0].interface"),
        "{line}"
    );
}
