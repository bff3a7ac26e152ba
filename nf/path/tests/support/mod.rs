//! A bed for the inbound path: real records, heap buffers, reassembly on the heap.
//!
//! A [`Bed`] checks its books when it goes: every frame that went in was delivered, sent to the host, dropped and
//! counted, consumed as a keepalive, or waits in reassembly; and no buffer is left.

mod fragments;

pub use fragments::{LARGE_LEN, Ledger, TwinFragments};

use nf_path::buf::{Layout, RxChecksums};
use nf_path::burst::{Frames, MAX_BURST, Now, Outputs};
use nf_path::counters::{Counters, Histogram, Totals};
use nf_path::inbound::classify::Listeners;
use nf_path::inbound::{Inbound, Tunnel, Tuning};
use nf_path::twin::craft::{self, Frame, inner_v4};
use nf_path::twin::{HeapBuf, SoftAead, SoftKey};
use nf_path::verdict::DropReason;
use nf_state::{
    Addresses, Cipher, Direction, KeySlot, Lookahead, Millis, Peer, PeerTable, Routes, Scope, Slot,
};
use nf_wire::ether;
use nf_wire::record::HeaderWord;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

/// Tunnel 0 listens here, ...
pub const LISTEN_V4: &str = "192.0.2.1:1194";
/// ... here, ...
pub const LISTEN_PORT: &str = "192.0.2.1:1195";
/// ... and here.
pub const LISTEN_V6: &str = "[2001:db8::1]:1194";
/// Tunnel 1, with peers and keys like those of tunnel 0, listens here, ...
pub const LISTEN_OTHER: &str = "192.0.2.2:1194";
/// ... and here.
pub const LISTEN_OTHER_V6: &str = "[2001:db8::2]:1194";
/// The MAC address of both tunnel interfaces.
pub const INTERFACE: ether::Mac = [2, 0, 0, 0, 0, 9];
/// The cipher of all keys.
pub const CIPHER: Cipher = Cipher::Aes128Gcm;
/// Peers 1 to this many, each with key 0 (primary) and key 1 (secondary).
pub const PEERS: u32 = 8;

/// Key and nonce tail of a peer's key id.
pub fn key(peer: u32, key_id: u8) -> ([u8; 16], [u8; 8]) {
    let mut key = [key_id; 16];
    key[..8].fill(peer as u8);
    (key, [0xa0 ^ peer as u8 ^ key_id << 4; 8])
}

/// A key slot as the control side would make it.
pub fn key_slot(cipher: Cipher, key_id: u8, key: &[u8], nonce_tail: [u8; 8]) -> Arc<KeySlot<SoftKey>> {
    let direction = || Direction { key: SoftKey::new(cipher, key), nonce_tail };
    KeySlot::new(cipher, key_id, direction(), direction())
}

/// A record of `peer` under its key `key_id` around any plaintext.
pub fn record_of(peer: u32, key_id: u8, packet_id: u32, plaintext: &[u8]) -> Vec<u8> {
    let (key, tail) = key(peer, key_id);
    craft::record(CIPHER, &key, &tail, HeaderWord::data_v2(key_id, peer), packet_id, plaintext)
}

/// The inner IPv4 address of a peer.
pub fn address_of(peer: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 8, 0, peer as u8 + 1)
}

/// An inner packet of `len` bytes from the peer's own address, with this number in it.
pub fn inner(peer: u32, len: usize, number: u32) -> Vec<u8> {
    inner_v4(address_of(peer), Ipv4Addr::new(10, 8, 0, 1), len, number)
}

/// The peer's outer datagram over IPv4, without payload.
pub fn outer(peer: u32) -> Frame {
    let source = format!("198.51.100.{peer}:{}", 40000 + peer);
    Frame::udp(source.parse().unwrap(), LISTEN_V4.parse().unwrap())
}

/// The peer's outer datagram over IPv6, without payload.
pub fn outer_v6(peer: u32) -> Frame {
    let source = format!("[2001:db8:1::{peer}]:{}", 40000 + peer);
    Frame::udp(source.parse().unwrap(), LISTEN_V6.parse().unwrap())
}

/// A frame with a record of `peer`, key 0, whose inner packet has `len` bytes and the packet id as its number.
pub fn frame(peer: u32, packet_id: u32, len: usize) -> Vec<u8> {
    outer(peer).payload(&record_of(peer, 0, packet_id, &inner(peer, len, packet_id))).build()
}

/// [`frame`] in a buffer.
pub fn buf(peer: u32, packet_id: u32, len: usize) -> HeapBuf {
    HeapBuf::new(&frame(peer, packet_id, len))
}

/// A control packet (P_CONTROL_V1) of `peer`.
pub fn control(peer: u32) -> HeapBuf {
    HeapBuf::new(&outer(peer).payload(&[0x20; 40]).build())
}

/// How a bed is made.
pub struct Setup {
    /// Whether records are batched.
    pub batch: bool,
    /// How far ahead records are asked for.
    pub lookahead: Lookahead,
    /// The source check of both tunnels.
    pub sources: Option<Routes>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup { batch: true, lookahead: Lookahead { distance: 2, scope: Scope::Burst }, sources: None }
    }
}

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
        let ether_type = if packet[0] >> 4 == 4 { ether::IPV4 } else { ether::IPV6 };
        assert_eq!(header, ether::header(INTERFACE, ether::peer_mac(peer), ether_type));
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
        self.inner().iter().map(|packet| craft::number(packet).expect("a packet with a number")).collect()
    }

    /// How many frames were delivered to tunnels.
    pub fn delivered(&self) -> usize {
        self.tunnels.iter().map(Vec::len).sum()
    }
}

/// The path under test with its books.
pub struct Bed {
    inbound: Option<Inbound<HeapBuf, SoftAead, TwinFragments>>,
    /// Counters of the lcore.
    pub counters: Arc<Counters>,
    /// What reassembly did, and how many large buffers it has.
    pub ledger: Rc<Ledger>,
    now: Now,
    live: usize,
    frames: u64,
    outcome: u64,
}

impl Default for Bed {
    fn default() -> Self {
        Bed::new(Setup::default())
    }
}

impl Bed {
    /// A bed with two tunnels of [`PEERS`] peers each.
    pub fn new(setup: Setup) -> Self {
        let live = HeapBuf::live();
        let mut listeners = Listeners::default();
        for (address, tunnel) in
            [(LISTEN_V4, 0), (LISTEN_PORT, 0), (LISTEN_V6, 0), (LISTEN_OTHER, 1), (LISTEN_OTHER_V6, 1)]
        {
            assert!(listeners.add(address.parse().unwrap(), tunnel));
        }
        let tunnel = || Tunnel { peers: peers(), sources: setup.sources.clone(), interface: INTERFACE };
        let counters = Arc::new(Counters::default());
        let ledger = Rc::new(Ledger::default());
        let inbound = Inbound::new(
            listeners,
            vec![tunnel(), tunnel()],
            Tuning { batch: setup.batch, lookahead: setup.lookahead },
            SoftAead::new(),
            TwinFragments::new(ledger.clone()),
            counters.clone(),
        );
        let (inbound, now) = (Some(inbound), Now::default());
        Bed { inbound, counters, ledger, now, live, frames: 0, outcome: 0 }
    }

    /// The path.
    pub fn inbound(&mut self) -> &mut Inbound<HeapBuf, SoftAead, TwinFragments> {
        self.inbound.as_mut().expect("there until the bed goes")
    }

    /// Sets the clock, in milliseconds.
    pub fn at(&mut self, millis: u64) -> &mut Self {
        self.now = Now { millis: Millis(millis), cycles: millis * fragments::CYCLES_PER_MILLI };
        self
    }

    /// One burst through the path.
    pub fn push(&mut self, frames: impl IntoIterator<Item = HeapBuf>) -> Out {
        let mut out = Outputs::new(2);
        self.push_into(frames, &mut out);
        let got = |frames: Frames<HeapBuf>| frames.into_iter().map(Got::from).collect();
        Out { tunnels: out.tunnels.into_iter().map(got).collect(), host: got(out.host) }
    }

    /// As [`Bed::push`], with outputs that may hold frames already.
    pub fn push_into(&mut self, frames: impl IntoIterator<Item = HeapBuf>, out: &mut Outputs<HeapBuf>) {
        let held = |out: &Outputs<HeapBuf>| out.tunnels.iter().map(Frames::len).sum::<usize>() + out.host.len();
        let mut rx: Frames<HeapBuf> = frames.into_iter().collect();
        self.frames += rx.len() as u64;
        let (before, now) = (held(out), self.now);
        self.inbound().process(&mut rx, now, out);
        assert!(rx.is_empty(), "the path takes all frames");
        self.outcome += (held(out) - before) as u64;
    }

    /// Any number of frames in full bursts; gives the numbers delivered to tunnel 0.
    pub fn stream(&mut self, frames: impl IntoIterator<Item = HeapBuf>) -> Vec<u32> {
        let mut frames = frames.into_iter().peekable();
        let mut numbers = Vec::new();
        while frames.peek().is_some() {
            let burst: Vec<_> = frames.by_ref().take(MAX_BURST).collect();
            numbers.extend(self.push(burst).numbers());
        }
        numbers
    }

    /// Gives up fragments that are too old.
    pub fn expire(&mut self) {
        let now = self.now;
        self.inbound().expire_fragments(now);
    }

    /// The counters' values.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// The drops that were counted.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.totals().nonzero_drops().collect()
    }

    /// How many batches there were in the size bucket of `size`.
    pub fn batches(&self, size: usize) -> u64 {
        self.counters.batches.get()[Histogram::bucket(size)]
    }

    /// A peer of tunnel 0.
    pub fn peer(&mut self, id: u32) -> &mut Peer<SoftKey> {
        self.inbound().tunnels_mut()[0].peers.get_mut(id).expect("a peer of the bed")
    }

    /// Link packets and bytes, VPN packets and bytes, keepalives, last heard, of a peer of tunnel 0.
    pub fn peer_counters(&mut self, id: u32) -> [u64; 6] {
        let c = &self.peer(id).counters;
        [
            &c.link_rx_packets,
            &c.link_rx_bytes,
            &c.vpn_rx_packets,
            &c.vpn_rx_bytes,
            &c.keepalives_rx,
            &c.last_recv_ms,
        ]
        .map(|counter| counter.get())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let totals = self.totals();
        assert_eq!(totals.nic_rx, self.frames, "frames counted as received");
        let dropped: u64 = totals.drops.iter().sum();
        let ends = self.outcome + dropped + totals.keepalives + self.ledger.pending() + self.ledger.absorbed();
        assert_eq!(self.frames + self.ledger.made(), ends, "every frame has one end: {totals:?}");
        self.inbound = None;
        assert_eq!(HeapBuf::live(), self.live, "buffers that live on");
    }
}

/// Peers 1 to [`PEERS`]; each is bound to the source address of [`outer`].
fn peers() -> PeerTable<SoftKey> {
    let mut table = PeerTable::new();
    for id in 1..=PEERS {
        let mut peer = Peer::new(id, Addresses { v4: Some(address_of(id)), v6: None });
        for (key_id, slot) in [(0, Slot::Primary), (1, Slot::Secondary)] {
            let (key, tail) = key(id, key_id);
            assert!(peer.keys.install(slot, key_slot(CIPHER, key_id, &key, tail)).is_none());
        }
        table.insert(peer).unwrap();
        let source: std::net::SocketAddr = format!("198.51.100.{id}:{}", 40000 + id).parse().unwrap();
        table.bind_address(id, (source.ip(), source.port())).unwrap();
    }
    table
}
