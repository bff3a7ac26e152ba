//! What a measurement opens or seals: fresh records or inner packets for every round.

use crate::program::cli::{Direction, RunLength};
use crate::program::exit::Failure;
use crate::program::perf::cases::Case;
use crate::program::perf::frames::{self, INTERFACE, LISTEN, PAYLOAD, ROUTER};
use lcore::imb::Key;
use lcore::{Imb, Mbuf, Mempool};
use nf_path::aead::Aead;
use nf_path::tunnel::{MssClamp, Tunnel};
use nf_state::{
    Addresses, Binding, Direction as KeyDirection, Endpoint, IpNet, KeySlot, Peer, PeerTable, Routes, Way,
};
use nf_wire::ether::{self, Tags};
use nf_wire::mss::auto_mss_within;
use nf_wire::record::{AAD_LEN, HeaderWord, NONCE_TAIL_LEN, OVERHEAD, nonce};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// One frame in this many is foreign: inbound, UDP to a port on which nobody listens; outbound, to no peer's MAC address.
const FOREIGN: usize = 100;
/// The key id of every peer's one key.
pub const KEY_ID: u8 = 0;
/// The MTU for which the TCP MSS is clamped, of the NIC port and of the tunnel interface.
const MTU: u16 = 1500;

/// One peer: a flow with a key of its own.
pub struct Sender {
    key: Arc<KeySlot<Key>>,
    next: u32,
}

impl Sender {
    /// The peer's key. Both directions have the same bytes, so that what one seals the other opens.
    pub fn key(&self) -> &KeySlot<Key> {
        &self.key
    }
}

/// What one frame of a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The record or packet of this peer with this number; inbound, the number is the packet id.
    Record(u32, u32),
    /// Not for us.
    Foreign,
}

/// All peers, and the order in which they send or are sent to.
pub struct Traffic {
    /// By peer id.
    pub senders: Vec<Sender>,
    direction: Direction,
    size: usize,
    run: RunLength,
    random: fastrand::Rng,
}

impl Traffic {
    /// The traffic of the `number`th case of a process. No two have a key in common.
    pub fn new(imb: &Imb, case: &Case, number: u32) -> Result<Self, Failure> {
        // Always the same keys and orders: a measurement that can be repeated. They protect nothing.
        let mut random = fastrand::Rng::with_seed(0x6f76_706e | u64::from(number) << 32);
        let mut senders = Vec::with_capacity(case.peers as usize);
        for _ in 0..case.peers {
            let mut bytes = vec![0; case.cipher.key_len()];
            random.fill(&mut bytes);
            let tail: [u8; NONCE_TAIL_LEN] = random.u64(..).to_ne_bytes();
            let direction = || {
                let key = Key::expand(imb, case.cipher, &bytes).map_err(Failure::machine)?;
                Ok(KeyDirection {
                    key,
                    nonce_tail: tail,
                })
            };
            let key = KeySlot::new(case.cipher, KEY_ID, direction()?, direction()?);
            senders.push(Sender { key, next: 1 });
        }
        Ok(Traffic {
            senders,
            direction: case.direction,
            size: usize::from(case.size),
            run: case.run,
            random,
        })
    }

    /// A worker's table of all peers, each with a remote and a way, with source check and MSS clamp as `run` has them by
    /// default.
    pub fn table(&self) -> Result<Tunnel<Key>, Failure> {
        let (mut peers, mut sources) = (PeerTable::new(), Routes::default());
        for (id, sender) in (0..).zip(&self.senders) {
            let address = frames::inner_address(id);
            let mut peer = Peer::new(
                id,
                Addresses {
                    v4: Some(address),
                    v6: None,
                },
            );
            peer.endpoint = Arc::new(Endpoint::bound(&Binding {
                remote: SocketAddr::V4(frames::outer_address(id)),
                local: LISTEN,
                way: Some(Way {
                    dst: ROUTER,
                    tags: Tags::default(),
                }),
            }));
            let _ = peer.keys.install_primary(sender.key.clone());
            sources
                .insert(IpNet::from(IpAddr::V4(address)), id)
                .map_err(Failure::machine)?;
            peers.insert(peer).map_err(Failure::machine)?;
        }
        let mut tunnel = Tunnel::new(INTERFACE);
        (tunnel.peers, tunnel.routes, tunnel.source_check) = (peers, sources, true);
        let max = [false, true].map(|outer_v6| {
            let limits = auto_mss_within(MTU, outer_v6, MTU);
            [limits.v4, limits.v6]
        });
        tunnel.mss = Some(MssClamp { max });
        Ok(tunnel)
    }

    /// The next round's frames in order: peers in runs, or drawn; foreign ones in between.
    pub fn plan(&mut self, frames: usize) -> Vec<Frame> {
        let peers = self.senders.len() as u32;
        let mut records = 0u32;
        (0..frames)
            .map(|i| {
                if i % FOREIGN == FOREIGN - 1 {
                    return Frame::Foreign;
                }
                let peer = match self.run {
                    RunLength::Fixed(run) => records / run % peers,
                    RunLength::Random => self.random.u32(..peers),
                };
                records += 1;
                let sender = &mut self.senders[peer as usize];
                sender.next += 1;
                Frame::Record(peer, sender.next - 1)
            })
            .collect()
    }

    /// Takes all buffers that a round needs from the pool, in random order, and writes the frames into them, behind the
    /// headroom that a port leaves.
    pub fn fill(&mut self, imb: &mut Imb, pool: &Mempool, plan: &[Frame]) -> Result<Vec<Mbuf>, Failure> {
        let mut buffers: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).take(plan.len()).collect();
        if buffers.len() < plan.len() {
            return Err(Failure::machine(
                "the pool has fewer buffers than the round has frames",
            ));
        }
        self.random.shuffle(&mut buffers);
        let front = match self.direction {
            Direction::In => PAYLOAD + OVERHEAD,
            Direction::Out => ether::HEADER_LEN,
        };
        for (i, (buf, frame)) in buffers.iter_mut().zip(plan).enumerate() {
            let bytes = buf
                .append(front + self.size)
                .ok_or_else(|| Failure::usage(format!("{} bytes do not fit", self.size)))?;
            match self.direction {
                Direction::In => self.write_record(imb, bytes, *frame),
                Direction::Out => self.write_packet(bytes, *frame, i / FOREIGN),
            }
        }
        Ok(buffers)
    }

    /// A record as it comes from the NIC.
    fn write_record(&self, imb: &mut Imb, frame: &mut [u8], what: Frame) {
        let Frame::Record(peer, id) = what else {
            frames::received(frame, 0, true);
            return;
        };
        frames::received(frame, peer, false);
        let (header, text) = frame[PAYLOAD..].split_at_mut(OVERHEAD);
        let (aad, tag) = header.split_at_mut(AAD_LEN);
        aad.copy_from_slice(&record_header(peer, id));
        frames::plaintext(text, Direction::In, peer, id);
        let key = self.senders[peer as usize].key();
        let nonce = nonce(id.to_be_bytes(), key.open_tail());
        tag.copy_from_slice(&imb.seal(key.open_key(), &nonce, &record_header(peer, id), text));
    }

    /// A packet as it comes from the tunnel interface.
    fn write_packet(&self, frame: &mut [u8], what: Frame, n: usize) {
        let (ethernet, packet) = frame.split_at_mut(ether::HEADER_LEN);
        match what {
            Frame::Record(peer, number) => {
                ethernet.copy_from_slice(&frames::to_peer(peer));
                frames::plaintext(packet, Direction::Out, peer, number);
            }
            Frame::Foreign => {
                ethernet.copy_from_slice(&frames::to_nobody(n));
                frames::plaintext(packet, Direction::Out, 0, n as u32);
            }
        }
    }

    /// Whether an inner packet is the one with this number.
    pub fn is_right(&self, packet: &[u8], peer: u32, number: u32, scratch: &mut Vec<u8>) -> bool {
        scratch.resize(self.size, 0);
        frames::plaintext(scratch, self.direction, peer, number);
        packet == scratch.as_slice()
    }
}

/// Header word and packet id.
pub fn record_header(peer: u32, id: u32) -> [u8; AAD_LEN] {
    let [a, b, c, d] = HeaderWord::data_v2(KEY_ID, peer).0.to_be_bytes();
    let [e, f, g, h] = id.to_be_bytes();
    [a, b, c, d, e, f, g, h]
}
