//! Addresses of an interface, and their removal.

mod support;

use nf_kernel::Netlink;
use support::{in_namespace, ip, veth, wait_for};

#[test]
fn addresses_are_listed_and_flushed() {
    in_namespace("addresses_are_listed_and_flushed", || {
        let mut netlink = Netlink::open().expect("rtnetlink");
        let index = veth(&mut netlink);
        assert_eq!(netlink.flush_addresses(index).expect("a flush"), 0, "none yet");
        for address in [
            "10.8.0.1/24",
            // A second one of the same network, and one that is removed with neither.
            "10.8.0.2/24",
            "10.9.0.1/32",
            "10.10.0.1 peer 10.10.0.2/32",
            "fd00::1/64",
            "fe80::77/64 scope link",
        ] {
            ip(&format!("address add {address} dev v0 nodad"));
        }
        ip("address add 10.99.0.1/24 dev v1");
        ip("-6 address add fe80::99/64 dev v1 nodad");
        let listed = netlink.addresses(index).expect("a dump");
        let text: Vec<_> = listed
            .iter()
            .map(|a| format!("{}/{}", a.address, a.prefix))
            .collect();
        for want in ["10.8.0.2/24", "10.10.0.1/32", "fe80::77/64"] {
            assert!(text.iter().any(|t| t == want), "{want}: {text:?}");
        }
        assert_eq!(netlink.flush_addresses(index).expect("a flush"), 6);
        wait_for("no address is left", || {
            ip("-o address show dev v0").trim().is_empty()
        });
        assert_eq!(netlink.addresses(index).expect("a dump"), []);
        assert_eq!(
            netlink.flush_addresses(index).expect("a flush"),
            0,
            "nothing left to remove"
        );
        // Those of other interfaces stay.
        let others = ip("-o address show dev v1");
        assert!(
            others.contains("10.99.0.1") && others.contains("fe80::99"),
            "{others}"
        );
        assert_eq!(
            netlink.flush_addresses(9999).expect("a flush"),
            0,
            "no such interface"
        );
    });
}

#[test]
fn more_addresses_than_one_datagram_of_requests() {
    in_namespace("more_addresses_than_one_datagram_of_requests", || {
        let mut netlink = Netlink::open().expect("rtnetlink");
        let index = veth(&mut netlink);
        for n in 0..300 {
            ip(&format!("address add 10.{}.{}.1/24 dev v0", n / 200, n % 200));
        }
        assert_eq!(netlink.flush_addresses(index).expect("a flush"), 300);
        assert_eq!(netlink.addresses(index).expect("a dump"), []);
    });
}
