//! Interfaces are found and set.

mod support;

use nf_kernel::{Error, Netlink};
use support::{in_namespace, ip, veth};

#[test]
fn links_are_found_and_set() {
    in_namespace("links_are_found_and_set", || {
        let mut netlink = Netlink::open().expect("rtnetlink");
        let index = veth(&mut netlink);
        let link = netlink.link("v0").expect("a look-up").expect("v0");
        assert_eq!(
            (link.name.as_str(), link.mtu, link.up, link.noarp),
            ("v0", 1500, true, false)
        );
        assert_eq!(link.mac, Some([2, 0, 0, 0, 0, 0x10]));
        assert_eq!(netlink.link_by_index(index).expect("a look-up"), Some(link));
        let lo = netlink.link("lo").expect("a look-up").expect("lo");
        assert_eq!((lo.index, lo.mac), (1, Some([0; 6])));

        for none in ["v2", "", "a-name-that-is-too-long-for-one", "v\0"] {
            assert_eq!(netlink.link(none).expect("a look-up"), None, "{none:?}");
        }
        assert_eq!(netlink.link_by_index(9999).expect("a look-up"), None);

        netlink.set_noarp(index, true).expect("set");
        netlink.set_mtu(index, 1400).expect("set");
        netlink.set_mac(index, [2, 0, 0, 0, 0, 0x20]).expect("set");
        netlink.set_up(index, false).expect("set");
        let said = ip("-o link show v0");
        for word in ["NOARP", "mtu 1400", "02:00:00:00:00:20", "state DOWN"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        let link = netlink.link("v0").expect("a look-up").expect("v0");
        assert_eq!(
            (link.mtu, link.up, link.carrier, link.noarp),
            (1400, false, false, true)
        );
        netlink.set_noarp(index, false).expect("set");
        netlink.set_up(index, true).expect("set");
        let link = netlink.link("v0").expect("a look-up").expect("v0");
        assert_eq!((link.up, link.noarp), (true, false));

        // What is refused is told with the operation, the error's text and the kernel's own words.
        let refused = netlink.set_mtu(index, 1).expect_err("too small").to_string();
        assert_eq!(
            refused,
            format!(
                "interface {index}: set MTU 1: Invalid argument (os error 22) (mtu less than device minimum)"
            )
        );
        let gone = netlink.set_up(9999, true).expect_err("no such interface");
        assert_eq!(gone.errno(), Some(19), "{gone}");
        let multicast = netlink.set_mac(index, [1, 0, 0, 0, 0, 1]).expect_err("multicast");
        assert!(
            matches!(multicast, Error::Refused { errno: 99, .. }),
            "{multicast:?}"
        );
        let zero = netlink.set_up(0, false).expect_err("no interface");
        assert_eq!(zero.errno(), Some(19));
    });
}
