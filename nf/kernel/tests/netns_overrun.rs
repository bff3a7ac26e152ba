//! Changes that do not fit the receive buffer are told as lost, and the monitor goes on.

mod support;

use nf_kernel::{Change, Monitor, Netlink};
use std::net::{IpAddr, Ipv4Addr};
use support::{in_namespace, ip, mac, until, veth};

#[test]
fn lost_changes_are_told() {
    in_namespace("lost_changes_are_told", || {
        let mut netlink = Netlink::open().expect("rtnetlink");
        let index = veth(&mut netlink);
        let mut monitor = Monitor::with_room(16 * 1024).expect("a monitor");
        let many: Vec<_> = (0..1000)
            .map(|n| (IpAddr::from(Ipv4Addr::from_bits(0x0a4d_0001 + n)), mac(n)))
            .collect();
        netlink.put_neighbours(index, &many).expect("set");
        let seen = monitor.changes().expect("lost changes are no error");
        assert_eq!(
            seen.iter().filter(|c| **c == Change::Overrun).count(),
            1,
            "{} changes",
            seen.len()
        );
        assert!(seen.len() < many.len(), "{} changes", seen.len());
        // Read anew, all is there; and what comes now is told again.
        assert_eq!(
            netlink.permanent_neighbours(index).expect("a dump").len(),
            many.len()
        );
        ip("link set v0 mtu 1300");
        let seen = until(
            &mut monitor,
            "mtu",
            |c| matches!(c, Change::LinkChanged(l) if l.mtu == 1300),
        );
        assert!(!seen.contains(&Change::Overrun));
    });
}
