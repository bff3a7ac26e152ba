//! The stock daemon with the library, up to its last message. Needs root, /dev/net/tun, openvpn and openssl.

mod support;

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use support::child::{Script, preloaded};
use support::daemon::{
    Daemon, PATIENCE, PORT, UP, client, client_options, folder, server, server_options, with_library,
};
use support::gateway::{Gateway, Packet};
use support::packets::{self, Family};

/// A gateway to which `ovpn0` belongs.
fn owner(packet: &Packet) -> Option<Vec<Vec<u8>>> {
    match (packet.protocol, packet.kind()) {
        (Some(0), 16 | 17) => Some(vec![packets::error(&packet.bytes, 0)]),
        (Some(0), 18) => Some(vec![packets::error(&packet.bytes, -19)]),
        _ => None,
    }
}

fn is_command(packet: &Packet, command: u8) -> bool {
    packet.kind() == Family::DcoV2.id() && packet.command() == command
}

#[test]
fn a_server_goes_all_the_way() {
    let Some(folder) = folder("a_server_goes_all_the_way") else {
        return;
    };
    let socket = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&socket, owner);
    let mut server = server(folder.path(), &socket, &[]);
    server.wait_for(UP, 1);
    let _client = client(folder.path(), &server);
    let peer = gateway.wait_for("NEW_PEER", |packet| is_command(packet, 1));
    gateway.wait_for("NEW_KEY", |packet| is_command(packet, 4));

    // What comes for the daemon's socket is read here in its stead: the descriptor is the same socket.
    server.signal("STOP");
    let port = UdpSocket::from(peer.fds[0].try_clone().unwrap());
    port.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut bytes = [0; 2000];
    while port.recv(&mut bytes).is_ok() {}
    let send = format!(
        "import socket\nu = socket.socket(2, 2)\nfor first in (0x48, 0x4f, 0x20):\n \
         u.sendto(bytes([first]) + b'!' * 60, ('127.0.0.1', {PORT}))"
    );
    assert!(
        server
            .beside("python3")
            .args(["-c", &send])
            .status()
            .unwrap()
            .success()
    );
    let mut firsts = Vec::new();
    while let Ok(count) = port.recv(&mut bytes) {
        if bytes[1..count] == [b'!'; 60] {
            firsts.push(bytes[0]);
        }
    }
    assert_eq!(firsts, [0x20], "no P_DATA_V2");
    server.signal("CONT");

    gateway.send(peer.connection, &packets::expired(1, 0));
    gateway.wait_for("DEL_PEER", |packet| is_command(packet, 3));
    server.signal("TERM");
    assert!(server.end().success());
    gateway.wait_for("RTM_DELLINK", |packet| {
        packet.protocol == Some(0) && packet.kind() == 17
    });
    assert_eq!(gateway.accepted(), 1);
}

#[test]
fn a_client_goes_all_the_way() {
    let Some(folder) = folder("a_client_goes_all_the_way") else {
        return;
    };
    let socket = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&socket, owner);
    let mut command = with_library(&socket);
    client_options(&mut command);
    let mut client = Daemon::start(command, folder.path(), "client.log");
    client.wait_for("UDPv4 link remote", 1);
    let mut command = client.beside("openvpn");
    server_options(&mut command).args([
        "--dev",
        "tun9",
        "--disable-dco",
        "--ifconfig-noexec",
        "--route-noexec",
    ]);
    let _server = Daemon::start(command, folder.path(), "server.log");
    client.wait_for(UP, 1);
    let peer = gateway.wait_for("NEW_PEER", |packet| is_command(packet, 1));
    assert_eq!(peer.fds.len(), 1);
    gateway.wait_for("NEW_KEY", |packet| is_command(packet, 4));
    client.signal("TERM");
    assert!(client.end().success());
    gateway.wait_for("RTM_DELLINK", |packet| {
        packet.protocol == Some(0) && packet.kind() == 17
    });
}

/// The peer expires while the daemon waits for the acknowledgement of its key: it learns of it, and only after that.
#[test]
fn a_notification_inside_a_request() {
    let Some(folder) = folder("a_notification_inside_a_request") else {
        return;
    };
    let socket = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&socket, |packet| {
        if packet.protocol == Some(16) && is_command(packet, 4) {
            return Some(vec![packets::expired(1, 0), packets::error(&packet.bytes, 0)]);
        }
        owner(packet)
    });
    let mut server = server(folder.path(), &socket, &[]);
    server.wait_for(UP, 1);
    let _client = client(folder.path(), &server);
    gateway.wait_for("DEL_PEER", |packet| is_command(packet, 3));
    let commands: Vec<u8> = gateway
        .packets()
        .iter()
        .filter(|packet| packet.kind() == Family::DcoV2.id())
        .map(|packet| packet.command())
        .collect();
    let at = |wanted| commands.iter().position(|command| *command == wanted).unwrap();
    assert!(at(4) < at(3), "{commands:?}");
    server.signal("TERM");
    assert!(server.end().success());
}

#[test]
fn without_a_gateway_the_daemon_says_so() {
    let Some(folder) = folder("without_a_gateway_the_daemon_says_so") else {
        return;
    };
    let mut server = server(folder.path(), &folder.path().join("nobody.sock"), &[]);
    server.wait_for(UP, 1);
    server.wait_for("isabling data channel offload", 1);
    server.signal("TERM");
    assert!(server.end().success());
}

#[test]
fn the_end_of_the_gateway_is_the_daemons() {
    let Some(folder) = folder("the_end_of_the_gateway_is_the_daemons") else {
        return;
    };
    let socket = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&socket, owner);
    let mut server = server(folder.path(), &socket, &[]);
    server.wait_for(UP, 1);
    drop(gateway);
    assert_eq!(server.end().code(), Some(1));
    server.wait_for("No such device", 1);
}

/// Privileges gone, root directory gone, socket file gone: SIGUSR1 has everything made anew over the first connection.
#[test]
fn a_daemon_that_has_dropped_its_privileges() {
    let Some(folder) = folder("a_daemon_that_has_dropped_its_privileges") else {
        return;
    };
    let socket = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&socket, owner);
    std::fs::create_dir_all(folder.path().join("jail/tmp")).unwrap();
    let more = [
        "--user",
        "nobody",
        "--group",
        "nogroup",
        "--chroot",
        "jail",
        "--persist-key",
    ];
    let mut server = server(
        folder.path(),
        &socket,
        &[&more[..], &["--tmp-dir", "/tmp"]].concat(),
    );
    server.wait_for(UP, 1);
    std::fs::remove_file(&socket).unwrap();
    for round in 2..4 {
        server.signal("USR1");
        server.wait_for(UP, round);
    }
    assert!(
        !server.said().contains("isabling data channel offload"),
        "{}",
        server.said()
    );
    let made = |packet: &&std::sync::Arc<Packet>| packet.protocol == Some(0) && packet.kind() == 16;
    assert_eq!(gateway.packets().iter().filter(made).count(), 3);
    assert_eq!(gateway.accepted(), 1);
    server.signal("TERM");
    server.end();
}

/// openvpn --daemon: the process that goes on is another one than the one that made the connection.
#[test]
fn in_the_background() {
    let Some(folder) = folder("in_the_background") else {
        return;
    };
    let socket = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&socket, owner);
    let (pid, log) = (folder.path().join("pid"), folder.path().join("daemon.log"));
    let (pid_name, log_name) = (pid.display().to_string(), log.display().to_string());
    let mut first = server(
        folder.path(),
        &socket,
        &["--daemon", "--writepid", &pid_name, "--log", &log_name],
    );
    assert!(first.end().success());
    let until = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&log).is_ok_and(|said| said.contains(UP)) {
        assert!(Instant::now() < until, "{:?}", std::fs::read_to_string(&log));
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = std::fs::read_to_string(&pid).unwrap();
    assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
    gateway.wait_for("RTM_DELLINK", |packet| {
        packet.protocol == Some(0) && packet.kind() == 17
    });
    assert_eq!(gateway.accepted(), 1);
}

/// The same as of the daemon, of a script.
#[test]
fn nobody_in_a_chroot() {
    let Some(folder) = folder("nobody_in_a_chroot") else {
        return;
    };
    let socket = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&socket, owner);
    let jail = folder.path().join("jail");
    std::fs::create_dir(&jail).unwrap();
    let text = format!(
        "
expect(ours(generic()), True)
os.chroot({jail:?})
os.chdir('/')
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
s = generic()
expect(ours(s), True)
ask(s, command(3, 1))
ask(route(), link(17, ACK, 2))
"
    );
    Script::from_command(preloaded("python3", Some(&socket)), &text).end();
    assert_eq!(gateway.accepted(), 1);
}
