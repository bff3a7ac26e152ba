//! What came out of the path.

use super::INTERFACE;
use nf_path::buf::{Layout, RxChecksums};
use nf_path::twin::{HeapBuf, craft};
use nf_wire::ether;

/// One frame that came out, and what was said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// Its bytes.
    pub frame: Vec<u8>,
    /// Offload flags.
    pub flags: u64,
    /// VLAN tag beside the data.
    pub vlan_tci: u16,
    /// Checksum verdicts.
    pub sums: RxChecksums,
    /// Layout, once restated.
    pub layout: Option<Layout>,
}

impl From<HeapBuf> for Got {
    fn from(buf: HeapBuf) -> Self {
        use nf_path::buf::Buf;
        Got {
            frame: buf.to_vec(),
            flags: buf.flags(),
            vlan_tci: buf.vlan_tci(),
            sums: buf.rx_checksums(),
            layout: buf.layout(),
        }
    }
}

impl Got {
    /// The inner packet of a delivered frame, and whose it is.
    pub fn inner(&self) -> (u32, &[u8]) {
        let (header, packet) = self.frame.split_at(ether::HEADER_LEN);
        let peer = u32::from_be_bytes([0, header[9], header[10], header[11]]);
        let ether_type = if packet[0] >> 4 == 4 {
            ether::IPV4
        } else {
            ether::IPV6
        };
        assert_eq!(
            header,
            ether::header(INTERFACE, ether::peer_mac(peer), ether_type)
        );
        (peer, packet)
    }
}

/// What one burst gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Out {
    /// By tunnel.
    pub tunnels: Vec<Vec<Got>>,
    /// For the host port.
    pub host: Vec<Got>,
}

impl Out {
    /// The inner packets delivered to tunnel 0.
    pub fn inner(&self) -> Vec<&[u8]> {
        self.tunnels[0].iter().map(|got| got.inner().1).collect()
    }

    /// The numbers in the inner packets delivered to tunnel 0.
    pub fn numbers(&self) -> Vec<u32> {
        self.inner()
            .iter()
            .map(|packet| craft::number(packet).expect("a packet with a number"))
            .collect()
    }

    /// How many frames were delivered to tunnels.
    pub fn delivered(&self) -> usize {
        self.tunnels.iter().map(Vec::len).sum()
    }
}
