//! Settings and the ingress classifier are undone at the end, and after a process was killed by the next.

mod support;

use nf_kernel::{Netlink, Undo, sysctl};
use std::fs;
use support::{in_namespace, run, veth};

#[test]
fn what_is_left_is_undone() {
    in_namespace("what_is_left_is_undone", || {
        let mut netlink = Netlink::open().expect("rtnetlink");
        let index = veth(&mut netlink);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gw.undo");
        let redirects = sysctl::path(sysctl::Version::V4, "v0", "send_redirects");
        let dad = sysctl::path(sysctl::Version::V6, "v0", "accept_dad");
        let v6 = sysctl::path(sysctl::Version::V6, "v0", "disable_ipv6");
        let values = || [&redirects, &dad, &v6].map(|path| sysctl::get(path).expect("a value"));
        let before = values();
        assert_eq!(before, ["1", "1", "0"]);
        let (mut undo, warnings) = Undo::open_in(folder.path(), "gw").expect("an undo file");
        assert_eq!(warnings, Vec::<String>::new());
        let mut change = |undo: &mut Undo| {
            assert_eq!(undo.set_sysctl(&redirects, "0").expect("set"), "1");
            assert_eq!(undo.set_sysctl(&redirects, "0").expect("set"), "0");
            undo.set_sysctl(&dad, "0").expect("set");
            undo.set_sysctl(&v6, "1").expect("set");
            undo.shut_ingress(&mut netlink, "v0").expect("shut");
            assert_eq!(values(), ["0", "0", "1"]);
            assert!(netlink.ingress_is_shut(index).expect("a dump"));
        };
        change(&mut undo);
        let text = fs::read_to_string(&file).expect("the file");
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                &format!(r#"{{"sysctl":"{redirects}","value":"1"}}"#)[..],
                &format!(r#"{{"sysctl":"{dad}","value":"1"}}"#),
                &format!(r#"{{"sysctl":"{v6}","value":"0"}}"#),
                r#"{"ingress":"v0","qdisc":true}"#,
            ]
        );
        assert!(undo.set_sysctl(&redirects, "many").is_err());

        // The end as it should be.
        assert_eq!(undo.perform(), Vec::<String>::new());
        assert_eq!(values(), before);
        assert!(!file.exists());
        assert!(!run("tc", "qdisc show dev v0").contains("clsact"));

        // Killed: the file is left, the changes too, until the next start.
        let (mut undo, _) = Undo::open_in(folder.path(), "gw").expect("an undo file");
        change(&mut undo);
        undo.set_sysctl(&sysctl::path(sysctl::Version::V4, "v1", "send_redirects"), "0")
            .expect("set");
        drop(undo);
        assert_eq!(values(), ["0", "0", "1"]);
        let (undo, warnings) = Undo::open_in(folder.path(), "gw").expect("an undo file");
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(values(), before);
        assert!(!netlink.has_ingress_qdisc(index).expect("a dump"));
        drop(undo);

        // What is gone is nothing to undo.
        let (mut undo, _) = Undo::open_in(folder.path(), "gw").expect("an undo file");
        undo.set_sysctl(&redirects, "0").expect("set");
        undo.shut_ingress(&mut netlink, "v0").expect("shut");
        assert_eq!(
            undo.shut_ingress(&mut netlink, "v9").expect_err("none").errno(),
            Some(19)
        );
        support::ip("link del v0");
        assert_eq!(undo.perform(), Vec::<String>::new());
    });
}
