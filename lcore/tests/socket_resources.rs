//! What the control socket takes of its process: file descriptors, CPU time, signals. One test, since others would take of
//! the same.

mod socket_rig;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use lcore::socket::Incoming;
use rustix::net::{RecvFlags, SendFlags};
use socket_rig::{Client, Rig, keep_log, logged, open_fds, thread, ticks, wait_for};

#[test]
fn it_takes_what_it_needs_and_gives_it_back() {
    let before = open_fds();
    let rig = Rig::new();
    signals();
    let with_server = open_fds();
    thousand_connections(&rig);
    // The thread may still have the last one in its hands.
    let none_is_left = || open_fds() == with_server;
    wait_for("all are closed", none_is_left);
    no_descriptors_left(&rig);
    wait_for("all are closed", none_is_left);
    paused_ones_do_not_spin(&rig);
    wait_for("all are closed", none_is_left);
    // With connections, packets that nobody took and descriptors in them.
    let (client, id) = rig.connect();
    let file = File::open("/dev/null").expect("a file");
    client.send_with(b"x", &[file.as_fd(); 3]);
    for _ in 0..20_000 {
        rig.server.send(id, vec![7; 300], None);
    }
    rig.server
        .send(id, vec![7; 300], Some(file.try_clone().expect("a copy").into()));
    wait_for("the packet is there", || open_fds() >= with_server + 7);
    let unpaired = rig.server.pair(id).expect("a pair");
    drop(rig);
    drop((client, file, unpaired));
    assert_eq!(open_fds(), before);
}

fn signals() {
    let status = std::fs::read_to_string(thread().join("status")).expect("procfs");
    let line = status.lines().find_map(|l| l.strip_prefix("SigBlk:"));
    let blocked = u64::from_str_radix(line.expect("a line").trim(), 16).expect("a mask");
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGIO,
        libc::SIGCHLD,
    ] {
        assert_ne!(blocked & 1 << (signal - 1), 0, "{signal}: {blocked:x}");
    }
}

fn thousand_connections(rig: &Rig) {
    let file = File::open("/dev/null").expect("a file");
    for n in 0..1000 {
        let (client, id) = rig.connect();
        match n % 4 {
            0 => {}
            1 => client.send_with(b"some that nobody wants", &[file.as_fd(); 10]),
            2 => {
                rig.server
                    .send(id, vec![1], Some(file.try_clone().expect("a copy").into()));
                let (further, theirs) = rig.server.pair(id).expect("a pair");
                drop(theirs);
                rig.gone(further);
            }
            _ => rig.server.close(id),
        }
        drop(client);
        loop {
            match rig.next() {
                Incoming::Gone { client } if client == id => break,
                Incoming::Packet { client, fds, .. } if client == id => assert_eq!(fds.len(), 4),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// One connects while the process may open no more files: it is told once, nothing spins, and it is accepted later.
fn no_descriptors_left(rig: &Rig) {
    keep_log();
    let clients = [(); 2].map(|()| Client::open());
    let thread = thread();
    let start = ticks(&thread);
    let highest = open_fd_numbers().max().expect("some are open");
    // The kernel gives the lowest number that is free: with one above all others, there are none below it.
    let mut spare = vec![File::open("/dev/null").expect("a file")];
    while spare.last().is_none_or(|file| file.as_raw_fd() <= highest) {
        spare.push(File::open("/dev/null").expect("a file"));
    }
    let last = spare.last().expect("one").as_raw_fd() as u64;
    let before = limit(None);
    limit(Some(last + 1));
    for client in &clients {
        client.connect_to(&rig.path);
    }
    std::thread::sleep(Duration::from_millis(500));
    limit(Some(before));
    let took = ticks(&thread) - start;
    assert!(rig.server.next().is_none(), "nobody could be accepted");
    let lines = logged("nobody can be accepted now");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(took <= 5, "{took} ticks of 100 in a second, in half of one");
    for _ in &clients {
        let next = rig.next();
        assert!(matches!(next, Incoming::Connected { .. }), "{next:?}");
    }
    drop((clients, spare));
    for _ in 0..2 {
        assert!(matches!(rig.next(), Incoming::Gone { .. }));
    }
}

/// The soft limit of open files (`RLIMIT_NOFILE`): sets it if told to, and returns what it was.
fn limit(soft: Option<u64>) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    let before = limit.rlim_cur;
    if let Some(soft) = soft {
        limit.rlim_cur = soft;
        // SAFETY: a valid struct that is only read.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    }
    before
}

fn open_fd_numbers() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("procfs");
    entries.map(|e| {
        let name = e.expect("an entry").file_name();
        name.to_str().expect("digits").parse().expect("a number")
    })
}

/// One of which enough waits, and that then hangs up; one that does not read; one that does neither and is being closed.
fn paused_ones_do_not_spin(rig: &Rig) {
    let clients: Vec<_> = (0..3).map(|_| rig.connect()).collect();
    let fill = |client: &Client| {
        std::thread::sleep(Duration::from_millis(20));
        while rustix::net::send(&client.0, &[9; 1000], SendFlags::DONTWAIT).is_ok() {
            std::thread::sleep(Duration::from_micros(20));
        }
    };
    for (client, _) in &clients {
        fill(client);
    }
    for (_, id) in &clients[1..] {
        for _ in 0..20_000 {
            rig.server.send(*id, vec![7; 300], None);
        }
    }
    rig.server.close(clients[2].1);
    let mut clients = clients.into_iter();
    let hung_up = clients.next().expect("three").1;
    let rest: Vec<_> = clients.collect();
    std::thread::sleep(Duration::from_millis(50));
    let (thread, start) = (thread(), ticks(&thread()));
    std::thread::sleep(Duration::from_secs(1));
    let took = ticks(&thread) - start;
    assert!(took <= 5, "{took} ticks of 100 in a second");
    // All that was sent arrives, and the end of it.
    let mut of_hung_up = 0;
    loop {
        match rig.next() {
            Incoming::Gone { client } if client == hung_up => break,
            Incoming::Packet { client, .. } if client == hung_up => of_hung_up += 1,
            Incoming::Packet { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(
        of_hung_up > 130,
        "{of_hung_up}: what was read, and what the kernel had"
    );
    let mut buffer = [0; 400];
    while rustix::net::recv(&rest[0].0.0, &mut buffer[..], RecvFlags::DONTWAIT).is_ok() {}
    drop(rest);
    let mut gone = 1;
    while gone < 3 {
        gone += u32::from(matches!(rig.next(), Incoming::Gone { .. }));
    }
    assert!(rig.server.next().is_none());
}
