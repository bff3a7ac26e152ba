//! The file of what has to be undone.

use super::*;

fn sysctl_action(path: &str) -> Action {
    Action::Sysctl {
        path: path.to_owned(),
        value: "1".to_owned(),
    }
}

#[test]
fn lines_are_as_documented() {
    let text = r#"{"sysctl":"net/ipv4/conf/tun0/send_redirects","value":"1"}"#;
    assert_eq!(
        serde_json::to_string(&sysctl_action("net/ipv4/conf/tun0/send_redirects")).expect("JSON"),
        text
    );
    let ingress = Action::Ingress {
        interface: "wan0".to_owned(),
        qdisc: true,
    };
    assert_eq!(
        serde_json::to_string(&ingress).expect("JSON"),
        r#"{"ingress":"wan0","qdisc":true}"#
    );
}

#[test]
fn a_garbage_line_is_told_and_skipped() {
    let good = r#"{"ingress":"wan0","qdisc":false}"#;
    let text = [
        good.as_bytes(),
        b"\n\xff\xfe{\n\n{\"sysctl\":3}\n",
        good.as_bytes(),
        b"\n{\"sysc",
    ]
    .concat();
    let (actions, warnings) = parse(&text, Path::new("gw.undo"));
    assert_eq!(
        actions,
        vec![
            Action::Ingress {
                interface: "wan0".to_owned(),
                qdisc: false
            };
            2
        ]
    );
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert_eq!(
        warnings[1],
        r#"gw.undo:4: not understood, skipped: "{\"sysctl\":3}""#
    );
    assert!(warnings.iter().all(|w| !w.contains('\n')));
}

#[test]
fn what_a_killed_process_left_is_undone_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gw.undo");
    let gone = serde_json::to_string(&sysctl_action("net/ipv4/conf/no-such-if/forwarding")).expect("JSON");
    let outside = serde_json::to_string(&sysctl_action("kernel/hostname")).expect("JSON");
    fs::write(&path, format!("{gone}\n{outside}\nrubbish\n")).expect("a file");
    let (undo, warnings) = Undo::open_in(folder.path(), "gw").expect("an undo file");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("gw.undo:3: not understood"), "{warnings:?}");
    assert!(
        warnings[1].starts_with("not undone: set /proc/sys/kernel/hostname")
            || warnings[1].starts_with("not undone: read /proc/sys/kernel/hostname"),
        "{warnings:?}"
    );
    // What could not be undone is kept, to be tried again.
    assert_eq!(
        fs::read_to_string(&path).expect("the file"),
        format!("{outside}\n")
    );
    assert_eq!(undo.perform(), warnings[1..]);
    assert!(!path.exists());
}

#[test]
fn only_one_gateway_of_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut undo, _) = Undo::open_in(folder.path(), "gw").expect("an undo file");
    undo.record(sysctl_action("net/ipv4/conf/no-such-if/forwarding"))
        .expect("a line");
    let second = Undo::open_in(folder.path(), "gw")
        .err()
        .expect("a refusal")
        .to_string();
    assert!(
        second.ends_with("gw.undo: a gateway of this name is running"),
        "{second}"
    );
    // As if killed: the file stays, the lock goes.
    drop(undo);
    assert!(folder.path().join("gw.undo").exists());
    let (undo, warnings) = Undo::open_in(folder.path(), "gw").expect("an undo file");
    assert_eq!(warnings, Vec::<String>::new());
    drop(undo);
    for odd in ["", "a/b", "../x", "a\0"] {
        assert!(Undo::open_in(folder.path(), odd).is_err(), "{odd:?}");
    }
}
