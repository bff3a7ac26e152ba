//! Buffers that run out come back: with as few buffers as are allowed, traffic goes on after a flood of fragments.

#[path = "support/gateway.rs"]
mod gateway;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "support/pcap.rs"]
mod pcap_file;

use gateway::{Gateway, Setup, Wire, captured, in_namespace, wait_for};

/// Both rings of three ports, two caches, two bursts.
const MINIMUM: u32 = 3 * 2 * 1024 + 2 * 384 + 2 * 256;

/// One of the fragments of a datagram that never ends, to the listening address.
fn fragment(id: u16, index: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut header = vec![0x45, 0, 0, 20 + 64];
    header.extend(id.to_be_bytes());
    header.extend((0x2000 | (index * 8)).to_be_bytes());
    header.extend([64, 17, 0, 0, 192, 168, 90, 2, 192, 168, 90, 1]);
    let sum: u32 = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    frame.extend(header);
    frame.extend([0x5a; 64]);
    frame
}

#[test]
fn traffic_goes_on_after_the_pool_ran_empty() {
    in_namespace("traffic_goes_on_after_the_pool_ran_empty", || {
        let general = format!("state_file = \"ids\"\nidle_sleep_us = 50\nmbufs = {MINIMUM}");
        let setup = Setup {
            nic: ("net_tap_nic,iface=nic0", "net_tap_nic"),
            host: "tap",
            general: &general,
            keys: "aes128-udp4",
            tunnel: "",
        };
        let gateway = Gateway::start(&setup, &[]);
        let mut nic = Wire::of_nic();
        // Two thousand datagrams of seven fragments: more than the table holds, and more than there are buffers.
        // Sent until the port says that there was no buffer.
        let no_buffer = || {
            gateway.telemetry(&format!("/ethdev/stats,{}", 0))["rx_nombuf"]
                .as_u64()
                .expect("a number")
        };
        let mut id = 0;
        wait_for("the pool to run empty", || {
            for _ in 0..1000 {
                (0..7).for_each(|index| nic.send(&fragment(id, index)));
                id += 1;
            }
            no_buffer() > 0
        });
        wait_for("fragments to be given up", || {
            gateway.dropped("fragment_timeout") > 0
        });
        let frames = pcap_file::read(&captured("aes128-udp4.outer.pcap"));
        let before = gateway.counter("tunnel_tx");
        // Again and again: the first may come while all buffers still wait for their fragments.
        wait_for("the capture to pass", || {
            frames.iter().for_each(|f| nic.send(f));
            gateway.counter("tunnel_tx") > before
        });
        // Whole once the flood has aged out: the rest is a replay, and none is lost on the way in.
        std::thread::sleep(std::time::Duration::from_secs(3));
        let (received, empty) = (gateway.counter("nic_rx"), no_buffer());
        frames.iter().for_each(|f| nic.send(f));
        wait_for("all of it", || {
            gateway.counter("nic_rx") >= received + frames.len() as u64
        });
        assert_eq!(no_buffer(), empty, "buffers are there again");
        gateway.end();
    });
}
