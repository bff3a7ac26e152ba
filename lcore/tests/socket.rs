//! The control socket: who may connect to it, packets and file descriptors in both directions, and its place in the file
//! system.

mod socket_rig;

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use lcore::socket::{self, Error, FDS, Incoming, Protocol, Server, describe};
use rustix::net::{AddressFamily, SocketType, ipproto, sockopt};
use socket_rig::{Client, Rig, is_root, me, wait_for};

fn listen(path: &Path) -> Result<Server, Error> {
    Server::listen(path, me().1, std::thread::current())
}

#[test]
fn packets_and_descriptors_go_both_ways() {
    let rig = Rig::new();
    let client = Client::connect(&rig.path);
    let Incoming::Connected {
        client: id,
        credentials,
    } = rig.next()
    else {
        panic!("connected")
    };
    let socket::Credentials { pid, uid, gid } = credentials;
    assert_eq!((pid, (uid, gid)), (std::process::id(), me()));
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    client.send(b"one");
    client.send_with(b"two", &[writer.as_fd()]);
    drop(writer);
    assert_eq!(rig.packet(id).0, b"one");
    let (bytes, fds) = rig.packet(id);
    assert_eq!((&bytes[..], fds.len()), (&b"two"[..], 1));
    let flags = rustix::io::fcntl_getfd(&fds[0]).expect("flags");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    rustix::io::write(&fds[0], b"through the pipe").expect("written");
    drop(fds);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("its end");
    assert_eq!(text, "through the pipe");

    rig.server.send(id, b"three".to_vec(), None);
    // It would read as the end.
    rig.server.send(id, Vec::new(), None);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = udp.local_addr().expect("bound").port();
    rig.server.send(id, b"four".to_vec(), Some(udp.into()));
    assert_eq!(client.receive().0, b"three");
    let (bytes, mut fds) = client.receive();
    assert_eq!((&bytes[..], fds.len()), (&b"four"[..], 1));
    let udp = UdpSocket::from(fds.remove(0));
    assert_eq!(udp.local_addr().expect("bound").port(), port);

    // More than are taken: the first ones.
    let file = File::open("/dev/null").expect("a file");
    client.send_with(b"many", &[file.as_fd(); 20]);
    assert_eq!(rig.packet(id).1.len(), FDS);
    drop(client);
    rig.gone(id);
    rig.server.send(id, b"too late".to_vec(), None);
    assert!(matches!(rig.server.pair(id), Err(Error::NoClient)));
    let (_other, next) = rig.connect();
    assert!(next > id, "numbers are not used twice");
}

#[test]
fn a_further_connection_is_handed_out() {
    let rig = Rig::new();
    let (client, id) = rig.connect();
    let (further, theirs) = rig.server.pair(id).expect("a pair");
    assert_ne!(further, id);
    rig.server.send(id, b"yours".to_vec(), Some(theirs));
    let (_, mut fds) = client.receive();
    let second = Client::of(fds.remove(0));
    second.send(b"hello");
    assert_eq!(rig.packet(further).0, b"hello");
    rig.server.send(further, b"answer".to_vec(), None);
    assert_eq!(second.receive().0, b"answer");
    // They end apart.
    drop(client);
    rig.gone(id);
    second.send(b"still here");
    assert_eq!(rig.packet(further).0, b"still here");
    let (third, theirs) = rig.server.pair(further).expect("of a pair");
    drop(theirs);
    rig.gone(third);
    drop(second);
    rig.gone(further);
}

#[test]
fn the_file_has_group_and_mode_and_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a/b/gw0.sock");
    let group = if me().0 == 0 { 54_321 } else { me().1 };
    let server = Server::listen(&path, group, std::thread::current()).expect("a server");
    let file = fs::metadata(&path).expect("made");
    assert_eq!((file.mode() & 0o7777, file.gid()), (0o660, group));
    for made in ["a", "a/b"] {
        let mode = fs::metadata(folder.path().join(made)).expect("made").mode();
        assert_eq!(mode & 0o7777, 0o755, "{made}");
    }
    let names = || {
        fs::read_dir(path.parent().expect("a folder"))
            .expect("made")
            .count()
    };
    assert_eq!(names(), 1, "nothing temporary is left");
    drop(server);
    assert_eq!(names(), 0);
    // Another's file at that place is left alone.
    let server = listen(&path).expect("a server");
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "another's").expect("written");
    drop(server);
    assert_eq!(fs::read_to_string(&path).expect("there"), "another's");
}

#[test]
fn a_stale_file_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gw0.sock");
    // Nobody listens at it any more.
    drop(UnixDatagram::bind(&path).expect("bound"));
    // One of another type would be refused for that while it is in use, and is stale now.
    let first = listen(&path).expect("in place of the stale one");
    let busy = listen(&path).expect_err("it answers").to_string();
    assert!(
        busy.contains(path.to_str().expect("text")) && busy.contains("another process answers"),
        "{busy}"
    );
    let client = Client::connect(&path);
    client.send(b"the first is still there");
    drop(first);
    let stream = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    assert!(
        matches!(listen(&path), Err(Error::Busy(_))),
        "another type answers"
    );
    drop(stream);
    drop(listen(&path).expect("stale now"));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);

    fs::write(&path, "a file").expect("written");
    assert!(matches!(listen(&path), Err(Error::Occupied(_))));
    assert_eq!(fs::read_to_string(&path).expect("there"), "a file");
    let under = listen(&path.join("x")).expect_err("no folder").to_string();
    assert!(under.contains("gw0.sock/x: making its folder"), "{under}");
    let long = folder.path().join("x".repeat(200));
    let long = listen(&long).expect_err("too long").to_string();
    assert!(long.contains("its path"), "{long}");
}

/// A client of another user and these groups, which prints what it is answered.
fn as_user(path: &Path, ids: &[&str]) -> String {
    let script = "import socket,sys\n\
        s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\n\
        s.settimeout(20)\n\
        try:\n s.connect(sys.argv[1]); s.send(b'hello'); print(s.recv(100).decode() or 'end')\n\
        except OSError as e: print(type(e).__name__)\n";
    let out = Command::new("setpriv")
        .args(ids)
        .args(["--", "/usr/bin/python3", "-c", script])
        .arg(path)
        .output()
        .expect("setpriv");
    let said = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    said
}

#[test]
fn others_are_refused() {
    if !is_root("others_are_refused") {
        return;
    }
    if !Path::new("/usr/bin/python3").exists() {
        return println!("SKIP: others_are_refused: no /usr/bin/python3");
    }
    socket_rig::keep_log();
    let rig = Rig::with_group(54_321);
    // The folder of a test is for root alone.
    let folder = rig.path.parent().expect("a folder");
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("open");
    let foreign = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    assert_eq!(as_user(&rig.path, &foreign), "PermissionError");
    assert_eq!(rig.server.refused(), 0);
    // Whatever the file's mode says.
    fs::set_permissions(&rig.path, Permissions::from_mode(0o666)).expect("open");
    for n in 1..=2 {
        let said = as_user(&rig.path, &foreign);
        // It may be closed before, or after, it has sent.
        assert!(
            ["end", "BrokenPipeError", "ConnectionResetError"].contains(&&said[..]),
            "{said}"
        );
        wait_for("it is counted", || rig.server.refused() == n);
    }
    assert!(rig.server.next().is_none(), "nothing of it arrives");
    let lines = socket_rig::logged("is refused");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("uid 65534"), "{lines:?}");
    fs::set_permissions(&rig.path, Permissions::from_mode(0o660)).expect("closed");

    let many: Vec<_> = (1000..1100).map(|g| g.to_string()).collect();
    let many = format!("--groups={},54321", many.join(","));
    let own = ["--reuid=65534", "--regid=54321", "--clear-groups"];
    let further = ["--reuid=65534", "--regid=65534", "--groups=54321"];
    for ids in [own, further, ["--reuid=65534", "--regid=65534", &many]] {
        let (path, ids) = (rig.path.clone(), ids.map(String::from));
        let other = std::thread::spawn(move || as_user(&path, &ids.each_ref().map(|s| &s[..])));
        let Incoming::Connected { client, credentials } = rig.next() else {
            panic!("connected")
        };
        assert_eq!(credentials.uid, 65_534);
        assert_eq!(rig.packet(client).0, b"hello");
        rig.server.send(client, b"welcome".to_vec(), None);
        assert_eq!(other.join().expect("it ran"), "welcome");
        rig.gone(client);
    }
    assert_eq!(rig.server.refused(), 2);
}

#[test]
fn dropping_the_server_ends_everything() {
    let rig = Rig::new();
    let path = rig.path.clone();
    let clients: Vec<_> = (0..20).map(|_| rig.connect()).collect();
    for (client, id) in &clients {
        client.send(b"never taken");
        for _ in 0..20_000 {
            rig.server.send(*id, vec![1; 100], None);
        }
    }
    let start = Instant::now();
    drop(rig);
    assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());
    assert!(!path.exists());
    for (client, _) in &clients {
        while !client.receive().0.is_empty() {}
    }
}

#[test]
fn sockets_are_described() {
    let v4 = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let told = describe(v4.as_fd()).expect("a socket");
    assert_eq!(told.local, v4.local_addr().expect("bound"));
    assert_eq!(
        (told.protocol, told.v6_only, told.mark),
        (Protocol::Udp, false, 0)
    );
    let tcp = TcpListener::bind("[::1]:0").expect("a socket");
    let told = describe(tcp.as_fd()).expect("a socket");
    assert_eq!(
        (told.local, told.protocol),
        (tcp.local_addr().expect("bound"), Protocol::Tcp)
    );
    for v6_only in [false, true] {
        let udp = rustix::net::socket(AddressFamily::INET6, SocketType::DGRAM, None).expect("a socket");
        sockopt::set_ipv6_v6only(&udp, v6_only).expect("set");
        let told = describe(udp.as_fd()).expect("a socket");
        assert_eq!(
            (told.local.to_string(), told.v6_only),
            ("[::]:0".into(), v6_only),
            "not bound"
        );
    }
    if me().0 == 0 {
        let mark = 0xfedc_ba98_u32;
        // SAFETY: SO_MARK reads one u32.
        let code = unsafe {
            libc::setsockopt(
                v4.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MARK,
                (&raw const mark).cast(),
                4,
            )
        };
        assert_eq!(code, 0);
        assert_eq!(describe(v4.as_fd()).expect("a socket").mark, mark);
        let raw = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::UDP));
        let told = describe(raw.expect("root may").as_fd()).expect("a socket");
        assert_eq!(told.protocol, Protocol::Other);
    }
    let unix: OwnedFd = UnixDatagram::unbound().expect("a socket").into();
    assert!(matches!(describe(unix.as_fd()), Err(Error::Family)));
    let file = File::open("/dev/null").expect("a file");
    assert!(matches!(describe(file.as_fd()), Err(Error::NotSocket)));
}
