//! Captures: what goes into `replay`, looked at before, and what came out, summed up after.

use crate::program::exit::Failure;
use nf_wire::ether::{HEADER_LEN, peer_mac};
use pcap::{Capture, Error, Linktype, Offline};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// Looks at every frame of a capture: how many there are. Refused by name: what libpcap cannot read, a link type
/// other than Ethernet, a file that ends in the middle of a frame, and frames of which the capture has only a part.
pub fn inspect(path: &Path) -> Result<u64, Failure> {
    let name = path.display();
    let refuse = |why: String| Failure::usage(format!("{name}: {why}"));
    let mut capture = open(path)?;
    let link = capture.get_datalink();
    if link != Linktype::ETHERNET {
        let link_name = link.get_name().unwrap_or_else(|_| link.0.to_string());
        return Err(refuse(format!(
            "link type {link_name}: only Ethernet (EN10MB) captures can be played"
        )));
    }
    let mut frames = 0;
    loop {
        match capture.next_packet() {
            Ok(packet) if packet.header.caplen < packet.header.len => {
                let (got, whole) = (packet.header.caplen, packet.header.len);
                return Err(refuse(format!(
                    "frame {} is cut off ({got} of {whole} bytes): capture whole frames (tcpdump -s 0)",
                    frames + 1
                )));
            }
            Ok(_) => frames += 1,
            Err(Error::NoMorePackets) => return Ok(frames),
            Err(e) => return Err(refuse(format!("cut off after frame {frames}: {e}"))),
        }
    }
}

/// What a peer's delivered packets add up to.
pub struct Delivered {
    /// How many there are.
    pub packets: u64,
    digest: Sha256,
}

impl Delivered {
    /// SHA-256 over the packets in order, each preceded by its length as a 32-bit big-endian number.
    pub fn sha256(self) -> String {
        self.digest
            .finalize()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }
}

/// Reads the frames that the tunnel port wrote: by peer id, which the source MAC address names.
pub fn delivered(path: &Path) -> Result<BTreeMap<u32, Delivered>, Failure> {
    let mut capture = open(path)?;
    let mut peers = BTreeMap::new();
    loop {
        let packet = match capture.next_packet() {
            Ok(packet) => packet,
            Err(Error::NoMorePackets) => return Ok(peers),
            Err(e) => return Err(Failure::machine(format!("{}: {e}", path.display()))),
        };
        let Some((header, inner)) = packet.data.split_first_chunk::<HEADER_LEN>() else {
            return Err(Failure::machine(format!(
                "{}: a frame without an Ethernet header",
                path.display()
            )));
        };
        let id = u32::from_be_bytes([0, header[9], header[10], header[11]]);
        if header[6..12] != peer_mac(id) {
            return Err(Failure::machine(format!(
                "{}: a frame that is from no peer",
                path.display()
            )));
        }
        let peer = peers.entry(id).or_insert_with(|| Delivered {
            packets: 0,
            digest: Sha256::new(),
        });
        peer.packets += 1;
        peer.digest.update((inner.len() as u32).to_be_bytes());
        peer.digest.update(inner);
    }
}

fn open(path: &Path) -> Result<Capture<Offline>, Failure> {
    Capture::from_file(path)
        .map_err(|e| Failure::usage(format!("{}: no capture that libpcap reads: {e}", path.display())))
}
