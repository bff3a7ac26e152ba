//! The virtual drivers in use load, and configure with what they have.

mod common;

use std::fs;

use lcore::tunnel::{Kind, Tunnel, TunnelConfig};
use lcore::{Burst, Error, Port, PortConfig, interface};
use nf_path::buf::Buf;

#[test]
fn drivers_load_and_a_tap_carries_frames() {
    let eal = common::eal("vdevs");
    let pool = common::pool(&eal, "vdevs", 8191);
    let dir = std::env::temp_dir().join(format!("vdevs-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder");
    let capture = dir.join("in.pcap");
    fs::write(&capture, one_frame()).expect("a capture");
    let args = format!(
        "rx_pcap={},tx_pcap={}",
        capture.display(),
        dir.join("out.pcap").display()
    );
    let pcap = Port::create_vdev(&eal, "net_pcap0", &args).expect("net_pcap loads");
    pcap.start(&PortConfig::default(), &pool).expect("it starts");
    let mut burst = Burst::<8>::new();
    assert_eq!(pcap.rx_queue(0).expect("queue 0").recv(&mut burst, 8), 1);
    assert_eq!(burst[0].data(), [0x5a; 60]);
    assert_eq!(pcap.tx_queue(0).expect("queue 0").send(&mut burst), 1);
    drop(pcap);
    let out = fs::read(dir.join("out.pcap")).expect("what was sent");
    assert_eq!(out[out.len() - 60..], [0x5a; 60]);
    let _ = fs::remove_dir_all(&dir);
    let missing =
        Port::create_vdev(&eal, "net_pcap1", "rx_pcap=/nonexistent.pcap").expect_err("no such file");
    assert!(matches!(missing, Error::Vdev { .. }));

    drop(Port::create_vdev(&eal, "net_af_packet0", "iface=lo").expect("net_af_packet loads"));
    // A driver that refuses by its own words was loaded.
    refused(
        &eal,
        "net_af_packet1",
        "iface=nosuch0",
        "its driver refused (rte_pmd_init_internals(): net_af_packet1",
    );
    refused(
        &eal,
        "net_virtio_user0",
        "queues=1",
        "its driver refused (virtio_user_pmd_probe(): ",
    );
    refused(&eal, "net_nosuch0", "", "no such driver");
    refused(&eal, "net_null\0", "", "its name holds a NUL byte");
    match fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => tap(&eal, &pool),
        Err(e) => eprintln!("TAP not tried: /dev/net/tun: {e}"),
    }
    assert_eq!(
        pool.available(),
        pool.capacity(),
        "as full at the end as at the start"
    );
}

fn refused(eal: &lcore::Eal, name: &str, args: &str, with: &str) {
    let error = Port::create_vdev(eal, name, args)
        .expect_err("it is refused")
        .to_string();
    assert!(error.contains(with) && !error.contains('\n'), "{error}");
}

/// A capture of one Ethernet frame of 60 bytes (pcap, microseconds, little endian).
fn one_frame() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65535, 1, 0, 0, 60, 60] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0x5a; 60]);
    file
}

fn tap(eal: &lcore::Eal, pool: &std::sync::Arc<lcore::Mempool>) {
    let name = format!("tt{}", std::process::id());
    let mac = [2, 0x6f, 0x76, 0, 0, 1];
    let config = TunnelConfig {
        kind: Kind::Tap,
        interface: name.clone(),
        mac: Some(mac),
        queue_size: 1024,
    };
    let tunnel = match Tunnel::open(eal, &config) {
        Err(Error::Vdev { reason, .. }) => {
            return eprintln!("TAP not tried, no permission: {reason}");
        }
        other => other.expect("a TAP interface"),
    };
    let again = Tunnel::open(eal, &config)
        .expect_err("the name is taken")
        .to_string();
    assert!(
        again.starts_with(&format!("interface {name} exists already")),
        "{again}"
    );
    refused_tunnels(eal, &config);
    tunnel
        .port()
        .start(&PortConfig::default(), pool)
        .expect("it starts");
    assert_eq!(tunnel.kind(), &Kind::Tap);
    assert_eq!(
        (
            tunnel.kernel_mac().expect("a MAC"),
            tunnel.port().mac().expect("a MAC")
        ),
        (mac, mac)
    );
    tunnel.set_up().expect("it comes up");
    tunnel.set_mtu(1400).expect("an MTU");
    assert_eq!(
        (
            tunnel.port().mtu().expect("an MTU"),
            interface::mtu(&name).expect("an MTU")
        ),
        (1400, 1400)
    );
    interface::set_mtu(&name, 1300).expect("the kernel's own way");
    assert_eq!(tunnel.mirror_mtu().expect("an MTU"), 1300);
    assert_eq!(tunnel.port().mtu().expect("an MTU"), 1300);
    let mut rx = tunnel.port().rx_queue(0).expect("queue 0");
    let mut tx = tunnel.port().tx_queue(0).expect("queue 0");
    let before = received(&name);
    let mut burst = Burst::<8>::new();
    let mut frame = pool.alloc().expect("a buffer");
    frame.append(60).expect("room").fill(0xff);
    burst.push(frame);
    assert_eq!(tx.send(&mut burst), 1);
    assert!(received(&name) > before, "the kernel counts it");
    rx.recv(&mut burst, 8);
    drop((burst, rx, tx, tunnel));
    assert!(!interface::exists(&name), "the interface goes with the port");
}

fn refused_tunnels(eal: &lcore::Eal, config: &TunnelConfig) {
    let open = |kind, interface: &str| {
        Tunnel::open(
            eal,
            &TunnelConfig {
                kind,
                interface: interface.into(),
                ..config.clone()
            },
        )
        .expect_err(interface)
    };
    assert!(matches!(open(Kind::Tap, "no/name"), Error::InterfaceName { .. }));
    assert!(matches!(open(Kind::Auto, "lo"), Error::InterfaceTaken(_)));
    assert!(matches!(
        open(Kind::Existing("nosuch".into()), ""),
        Error::NoPort(_)
    ));
    if !std::path::Path::new("/dev/vhost-net").exists() {
        assert!(matches!(open(Kind::VirtioUser, "vhost0"), Error::NoVhost(_)));
    }
}

/// Packets that the kernel received on an interface.
fn received(name: &str) -> u64 {
    let path = format!("/sys/class/net/{name}/statistics/rx_packets");
    fs::read_to_string(path)
        .ok()
        .and_then(|n| n.trim().parse().ok())
        .expect("a counter")
}
