//! Clients of the control socket that send too much, read too slowly, say nothing, stop or go away: the bounds hold, and
//! nobody waits for them.

mod socket_rig;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lcore::socket::{CONNECTIONS, Error, Incoming, LINGER, LONGEST, QUEUE_BYTES, QUEUE_PACKETS};
use rustix::net::{SendFlags, Shutdown, shutdown};
use socket_rig::{Client, Rig, keep_log, logged};

/// A number in a packet of `length` bytes.
fn numbered(n: u32, length: usize) -> Vec<u8> {
    let mut bytes = n.to_be_bytes().to_vec();
    bytes.resize(length, 0x5a);
    bytes
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("a number"))
}

/// That `work` does not wait for anybody.
fn promptly<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(2), "{what} took {took:?}");
    result
}

#[test]
fn a_dump_to_a_slow_reader_arrives_in_order() {
    const REPLIES: u32 = 10_000;
    let rig = Rig::new();
    let (slow, id) = rig.connect();
    promptly("the dump", || {
        for n in 0..REPLIES {
            rig.server.send(id, numbered(n, 300), None);
        }
    });
    // Another one is served meanwhile.
    let (other, other_id) = rig.connect();
    other.send(b"quick");
    assert_eq!(rig.packet(other_id).0, b"quick");
    promptly("an answer", || {
        rig.server.send(other_id, b"answer".to_vec(), None);
        assert_eq!(other.receive().0, b"answer");
    });
    for n in 0..REPLIES {
        let (bytes, _) = slow.receive();
        assert_eq!((number(&bytes), bytes.len()), (n, 300));
        if n % 100 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        // What is sent now comes behind what waits.
        if n == 5000 {
            rig.server.send(id, numbered(REPLIES, 300), None);
        }
    }
    assert_eq!(number(&slow.receive().0), REPLIES);
    rig.server.send(id, b"direct again".to_vec(), None);
    assert_eq!(slow.receive().0, b"direct again");
}

#[test]
fn one_that_does_not_read_is_disconnected() {
    keep_log();
    let rig = Rig::new();
    for (length, most) in [(60_000, QUEUE_BYTES / 60_000), (4, QUEUE_PACKETS)] {
        let (client, id) = rig.connect();
        client.send(b"of no interest after that");
        let mut sent = 0;
        let before = logged("reads too slowly").len();
        promptly("sending", || {
            while logged("reads too slowly").len() == before {
                rig.server.send(id, numbered(sent, length), None);
                sent += 1;
                assert!(sent < 200_000, "no bound");
            }
        });
        assert!(sent as usize > most, "{sent} of {length} bytes");
        for _ in 0..100 {
            rig.server.send(id, numbered(0, length), None);
        }
        assert_eq!(logged("reads too slowly").len(), before + 1, "one line");
        // What it sent before may have been taken already; then it is gone.
        loop {
            match rig.next() {
                Incoming::Gone { client } if client == id => break,
                Incoming::Packet { client, .. } if client == id => {}
                other => panic!("{other:?}"),
            }
        }
        // What the kernel had of it arrives, and then the end.
        let read = std::iter::from_fn(|| Some(client.receive().0).filter(|b| !b.is_empty()));
        assert!(
            read.enumerate()
                .all(|(n, bytes)| number(&bytes) == n as u32 && n < sent as usize)
        );
    }
    too_long(&rig);
}

fn too_long(rig: &Rig) {
    let (client, id) = rig.connect();
    let longest = numbered(1, LONGEST);
    client.send(&longest);
    assert!(rig.packet(id).0 == longest);
    rig.server.send(id, longest.clone(), None);
    assert!(client.receive().0 == longest);
    client.send(b"before");
    client.send(&numbered(1, LONGEST + 1));
    // The connection may have ended by now.
    let _ = rustix::net::send(&client.0, b"after", SendFlags::NOSIGNAL);
    assert_eq!(rig.packet(id).0, b"before");
    rig.gone(id);
    client.ends();
    assert_eq!(logged("more than 65536 bytes").len(), 1);
    // Nor is one sent.
    let (client, id) = rig.connect();
    rig.server.send(id, numbered(1, LONGEST + 1), None);
    rig.gone(id);
    client.ends();
    assert_eq!(logged("is too long").len(), 1);
}

#[test]
fn one_that_sends_too_fast_waits() {
    const PACKETS: u32 = 20_000;
    let rig = Rig::new();
    let (fast, id) = rig.connect();
    let sender = std::thread::spawn(move || {
        for n in 0..PACKETS {
            fast.send(&numbered(n, 1000));
        }
    });
    std::thread::sleep(Duration::from_millis(400));
    assert!(!sender.is_finished(), "it is not read from");
    // Others are.
    let (other, other_id) = {
        let client = Client::connect(&rig.path);
        let mut waiting = 0;
        loop {
            match rig.next() {
                Incoming::Connected { client: id, .. } => {
                    // 256 KiB, of which each counts for 2024 bytes.
                    assert!((100..=200).contains(&waiting), "{waiting}");
                    break (client, id);
                }
                Incoming::Packet { client, bytes, .. } if client == id => {
                    assert_eq!(number(&bytes), waiting);
                    waiting += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    };
    drop(other);
    let (mut of_fast, mut gone) = (None, false);
    while !gone || of_fast != Some(PACKETS - 1) {
        match rig.next() {
            Incoming::Gone { client } if client == other_id => gone = true,
            // It has sent all and ended; what it sent comes first.
            Incoming::Gone { client } if client == id => panic!("after {of_fast:?}"),
            Incoming::Packet { client, bytes, .. } if client == id => {
                let n = number(&bytes);
                assert!(
                    of_fast.is_none_or(|before| n == before + 1),
                    "{n} after {of_fast:?}"
                );
                of_fast = Some(n);
            }
            other => panic!("{other:?}"),
        }
    }
    sender.join().expect("it has sent all");
    rig.gone(id);
}

#[test]
fn as_many_connections_as_there_may_be() {
    let rig = Rig::new();
    let mut clients: Vec<_> = (0..CONNECTIONS - 1).map(|_| rig.connect()).collect();
    let (last, _theirs) = rig.server.pair(clients[0].1).expect("the last");
    Client::connect(&rig.path).ends();
    assert!(matches!(rig.server.pair(last), Err(Error::Full)));
    assert!(rig.server.next().is_none(), "not told of");
    // All are served, those that say nothing among them.
    for (client, id) in &clients {
        client.send(b"?");
        assert_eq!(rig.packet(*id).0, b"?");
    }
    let (client, id) = clients.pop().expect("one");
    drop(client);
    rig.gone(id);
    let (client, id) = rig.connect();
    client.send(b"there is room again");
    assert_eq!(rig.packet(id).0, b"there is room again");
}

#[test]
fn one_that_is_stopped_holds_nobody_up() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return println!("SKIP: one_that_is_stopped_holds_nobody_up: no /usr/bin/python3");
    }
    const PACKETS: u32 = 30_000;
    let rig = Rig::new();
    let script = "import socket,sys\n\
        s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET); s.connect(sys.argv[1])\n\
        print('ready',flush=True)\n\
        n=0\n\
        while n<int(sys.argv[2]):\n b=s.recv(1000); assert int.from_bytes(b[:4],'big')==n; n+=1\n\
        print('all',flush=True)\n";
    let mut stopped = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .arg(&rig.path)
        .arg(PACKETS.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut lines = BufReader::new(stopped.stdout.take().expect("a pipe")).lines();
    let Incoming::Connected { client: id, .. } = rig.next() else {
        panic!("connected")
    };
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    let signal = |name: &str| {
        let to = stopped.id().to_string();
        let done = Command::new("kill").args([name, &to]).status().expect("kill");
        assert!(done.success());
    };
    signal("-STOP");
    let (other, other_id) = rig.connect();
    for n in 0..PACKETS {
        promptly("sending", || rig.server.send(id, numbered(n, 100), None));
    }
    promptly("the other one's answer", || {
        other.send(b"?");
        assert_eq!(rig.packet(other_id).0, b"?");
        rig.server.send(other_id, b"!".to_vec(), None);
        assert_eq!(other.receive().0, b"!");
    });
    signal("-CONT");
    assert_eq!(lines.next().expect("a line").expect("text"), "all");
    rig.gone(id);
    assert!(stopped.wait().expect("it ends").success());
}

#[test]
fn closing_lets_it_read_what_waits() {
    const PACKETS: u32 = 20_000;
    let rig = Rig::new();
    let (reader, id) = rig.connect();
    let (idle, idle_id) = rig.connect();
    let (_deaf, deaf_id) = rig.connect();
    reader.send(b"not told of any more");
    for n in 0..PACKETS {
        rig.server.send(id, numbered(n, 300), None);
        rig.server.send(deaf_id, numbered(n, 300), None);
    }
    let start = Instant::now();
    for id in [id, idle_id, deaf_id] {
        promptly("closing", || rig.server.close(id));
        rig.server.send(id, b"too late".to_vec(), None);
    }
    rig.gone(idle_id);
    idle.ends();
    for n in 0..PACKETS {
        assert_eq!(number(&reader.receive().0), n);
    }
    reader.ends();
    rig.gone(id);
    assert!(start.elapsed() < LINGER, "{:?}", start.elapsed());
    rig.gone(deaf_id);
    let took = start.elapsed();
    assert!(took >= LINGER && took < LINGER * 2, "{took:?}");
    rig.server.close(deaf_id);
    assert!(rig.server.next().is_none(), "told once");
}

#[test]
fn what_one_sent_before_it_went_arrives() {
    let rig = Rig::new();
    // It leaves something unread, which resets the connection.
    let (client, id) = rig.connect();
    rig.server.send(id, b"unread".to_vec(), None);
    for n in 0..100 {
        client.send(&numbered(n, 100));
    }
    drop(client);
    for n in 0..100 {
        assert_eq!(number(&rig.packet(id).0), n);
    }
    rig.gone(id);
    // It does not read any more, but sent something.
    let (client, id) = rig.connect();
    shutdown(&client.0, Shutdown::Read).expect("shut down");
    client.send(b"last words");
    rig.server.send(id, b"not heard".to_vec(), None);
    assert_eq!(rig.packet(id).0, b"last words");
    rig.gone(id);
    // It does not send any more.
    let (client, id) = rig.connect();
    client.send(b"over");
    shutdown(&client.0, Shutdown::Write).expect("shut down");
    assert_eq!(rig.packet(id).0, b"over");
    rig.gone(id);
    client.ends();
    // An empty packet reads as the end.
    let (client, id) = rig.connect();
    client.send(b"");
    rig.gone(id);
    client.ends();
}
