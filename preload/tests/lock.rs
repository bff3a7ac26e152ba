//! The connection by path is one for all threads, and nobody waits for it for long.

mod support;

use std::time::{Duration, Instant};

use ovpn_dco_protocol::OPEN;
use support::child::Script;
use support::gateway::{Gateway, Packet};

fn opened(gateway: &Gateway) -> usize {
    gateway
        .packets()
        .iter()
        .filter(|packet| packet.kind() == OPEN)
        .count()
}

/// Many threads at once, each with sockets of its own.
#[test]
fn threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::start(&path);
    let text = "
import threading
wrong = []
def work(number):
    try:
        for seq in range(1, 30):
            s = generic()
            expect(ours(s), True)
            ask(s, command(3, seq * 100 + number))
            s.close()
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
expect(wrong, [])
";
    Script::start(Some(&path), text).end();
    assert_eq!(gateway.accepted(), 1);
    assert_eq!(opened(&gateway), 8 * 29);
}

/// While one thread waits for a gateway that says nothing, another one, and a signal handler, go to the kernel.
#[test]
fn no_deadlock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, |packet| {
        let held = packet.kind() == OPEN && packet.bytes[8..12] != 2_u32.to_ne_bytes();
        held.then(Vec::new)
    });
    let start = Instant::now();
    Script::start(
        Some(&path),
        "
import signal, threading, time
first = generic()
expect(ours(first), True)
# A handler of the C kind, which runs in the middle of the wait.
libc = ctypes.CDLL(None, use_errno=True)
seen = []
@ctypes.CFUNCTYPE(None, ctypes.c_int)
def handler(number):
    start = time.monotonic()
    fd = libc.socket(16, 3, GENERIC)
    seen.append((time.monotonic() - start < 0.5, ours(socket.socket(fileno=fd))))
libc.signal(signal.SIGUSR1, handler)
result = []
thread = threading.Thread(target=lambda: result.append(ours(generic())))
thread.start()
time.sleep(0.5)
start = time.monotonic()
expect(ours(generic()), False)
assert time.monotonic() - start < 3, time.monotonic() - start
signal.pthread_kill(thread.ident, signal.SIGUSR1)
thread.join()
expect((result, seen), ([False], [(True, False)]))
",
    )
    .end();
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert_eq!(opened(&gateway), 2);
}

/// A gateway that says nothing about interfaces.
fn silent(packet: &Packet) -> Option<Vec<Vec<u8>>> {
    (packet.protocol == Some(0) && packet.kind() == 18).then(Vec::new)
}

/// A forked child has the same connection, and does not take its parent's answers from it.
#[test]
fn parent_and_child() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, silent);
    Script::start(
        Some(&path),
        "
import threading, time
r = route()
thread = threading.Thread(target=lambda: fails(errno.ENODEV, send, r, link(18, ACK, 60)))
thread.start()
time.sleep(0.5)
child = os.fork()
if child == 0:
    start = time.monotonic()
    expect(ours(generic()), False)
    assert time.monotonic() - start < 5
    os._exit(0)
expect(os.waitpid(child, 0)[1], 0)
thread.join()
children = []
for number in range(4):
    children.append(os.fork())
    if children[-1] == 0:
        for seq in range(1, 50):
            s = generic()
            expect(ours(s), True)
            ask(s, command(3, seq))
        os._exit(0)
for child in children:
    expect(os.waitpid(child, 0)[1], 0)
",
    )
    .end();
    assert_eq!((gateway.accepted(), opened(&gateway)), (1, 4 * 49));
}

/// The parent dies in the middle of an exchange: the child goes on.
#[test]
fn left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, silent);
    let mut script = Script::start(
        Some(&path),
        "
import signal, time
result, to = os.pipe()
parent = os.fork()
if parent == 0:
    ask(generic(), command(3, 1))
    me = os.getpid()
    if os.fork():
        send(route(), link(18, ACK, 60))
    assert hear() == 'kill'
    os.kill(me, signal.SIGKILL)
    while os.getppid() == me:
        time.sleep(0.01)
    time.sleep(0.2)
    start = time.monotonic()
    good = ours(generic()) and time.monotonic() - start < 0.5
    os.write(to, b'good' if good else b'bad')
    os._exit(0)
expect(os.waitpid(parent, 0)[1], signal.SIGKILL)
expect(os.read(result, 10), b'good')
",
    );
    gateway.wait_for("RTM_GETLINK", |packet| silent(packet).is_some());
    script.say("kill");
    script.end();
    assert_eq!(gateway.accepted(), 1);
}
