//! Without its variable, and for everything that is not its business, the library is as if it were not there.

mod support;

use std::path::Path;
use std::process::Command;

use ovpn_dco_protocol::SOCKET_VARIABLE;
use support::child::{Script, library, preloaded};
use support::gateway::Gateway;

/// The seven functions, right and wrong, on sockets of all sorts: what they give, and errno.
const CALLS: &str = r#"
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    ctypes.set_errno(77)
    result = getattr(libc, name)(*args)
    print(name, result if result < 0 or name != "socket" else "fd", ctypes.get_errno())
    return result

def calls(fd):
    call("bind", fd, None, 12)
    call("bind", fd, b"\x10\0" + bytes(10), 4)
    call("bind", fd, b"\xff\0" + bytes(10), 12)
    call("getsockname", fd, None, None)
    call("getsockname", fd, ctypes.create_string_buffer(64), ctypes.byref(ctypes.c_uint(64)))
    call("setsockopt", fd, 1, 2, None, 4)
    call("setsockopt", fd, 270, 1, None, 0)
    call("sendmsg", fd, None, 0x40)
    call("recvmsg", fd, None, 0x40)
    call("close", fd)
    call("close", fd)

for args in ((2, 2, 0), (10, 1, 0), (1, 5, 0), (16, 3, 0), (16, 3, 9), (16, 3, 99), (99, 1, 0), (2, 0, 0)):
    fd = call("socket", *args)
    calls(fd)
calls(-1)
calls(1000000)
regular = os.open("/dev/null", os.O_RDWR)
calls(regular)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
left, right = os.pipe()
a.sendmsg([b"one", b"two"], [(1, 1, struct.pack("i", left))])
print(b.recvmsg(4, 64, socket.MSG_PEEK | socket.MSG_TRUNC)[0::2])
data, control, flags, name = b.recvmsg(100, 64)
print(data, len(control), flags, name)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("127.0.0.1", 0))
u.sendmsg([b"\x48data"], [], 0, u.getsockname())
print(u.recvmsg(100)[0])
# The interfaces, by rtnetlink.
print(socket.if_nameindex())
s = route()
send(s, message(18, DUMP, 5, bytes(16)))
print([header(receive(s)[0])["seq"] for _ in range(1)])
"#;

fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn calls(command: Command) -> String {
    Script::from_command(command, CALLS).end()
}

/// Also with the variable: these sockets are not its business.
#[test]
fn other_sockets_behave_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let mut bare = Command::new("python3");
    bare.env_remove("LD_PRELOAD");
    let wanted = calls(bare);
    assert!(wanted.lines().count() > 100, "{wanted}");
    assert_eq!(calls(preloaded("python3", None)), wanted, "without the variable");
    assert_eq!(
        calls(preloaded("python3", Some(&path))),
        wanted,
        "without a gateway"
    );
    let _gateway = Gateway::start(&path);
    assert_eq!(calls(preloaded("python3", Some(&path))), wanted, "with a gateway");
}

/// A generic-netlink socket is the kernel's: it knows its own controller, and has a netlink address.
const REAL: &str = "
s = generic()
expect(ours(s), False)
expect(s.getsockname()[0] != 0, True)
family_name = attribute(2, b'nlctrl\\0')
send(s, message(16, ACK, 5, struct.pack('=BBH', 3, 1, 0) + family_name))
expect(header(receive(s)[0])['kind'], 16)
s.close()
";

#[test]
fn without_the_variable_the_gateway_is_not_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::start(&path);
    Script::start(None, REAL).end();
    // Read once, when the library was loaded.
    let later = format!("os.environ['{SOCKET_VARIABLE}'] = {path:?}\n{REAL}");
    Script::start(None, &later).end();
    Script::start(Some(Path::new("")), REAL).end();
    assert_eq!(gateway.accepted(), 0);
    let gone = format!("del os.environ['{SOCKET_VARIABLE}']\nexpect(ours(generic()), True)");
    Script::start(Some(&path), &gone).end();
    assert_eq!(gateway.accepted(), 1);
}

#[test]
fn no_gateway_is_a_real_socket() {
    let folder = tempfile::tempdir().unwrap();
    Script::start(Some(&folder.path().join("nobody.sock")), REAL).end();
    let stale = folder.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    Script::start(Some(&stale), REAL).end();
    let long = folder.path().join("x".repeat(120));
    Script::start(Some(&long), REAL).end();
    // One that closes at once, as it does with those who may not connect, or refuses the version.
    let closing = folder.path().join("closing.sock");
    let listener = Gateway::with_rule(&closing, |packet| {
        (packet.kind() == ovpn_dco_protocol::HELLO).then(|| vec![support::packets::error(&packet.bytes, -93)])
    });
    Script::start(Some(&closing), REAL).end();
    assert_eq!(listener.open(), 0);
}

#[test]
fn other_programs_do_not_notice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::start(&path);
    let lines =
        "exec 3</dev/null; echo $((1+1)); ls / | sort; (exit 3) || echo $?; exec 3<&-; cat </dev/null";
    let mut bare = Command::new("sh");
    bare.args(["-c", lines]);
    let mut with = preloaded("sh", Some(&path));
    with.args(["-c", lines]);
    assert_eq!(output(with), output(bare));
    let mut with = preloaded("env", Some(&path));
    let environment = output(std::mem::replace(&mut with, preloaded("env", None)));
    assert!(environment.contains(&format!("{SOCKET_VARIABLE}={}", path.display())));
    assert_eq!(gateway.accepted(), 0, "none of them has to do with netlink");
}

#[test]
fn exports_are_the_seven() {
    let mut command = Command::new("nm");
    command
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(library());
    let output = output(command);
    let names: Vec<&str> = output.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        names,
        [
            "bind",
            "close",
            "getsockname",
            "recvmsg",
            "sendmsg",
            "setsockopt",
            "socket"
        ]
    );
}
