//! The records that a measurement opens: fresh ciphertext for every round.

use crate::program::cli::RunLength;
use crate::program::exit::Failure;
use lcore::imb::Key;
use lcore::{Imb, Mbuf, Mempool};
use nf_path::buf::Buf;
use nf_path::inbound::Tunnel;
use nf_state::{Addresses, Cipher, Direction, IpNet, KeySlot, Peer, PeerTable, Routes};
use nf_wire::ether::{self, Mac};
use nf_wire::record::{AAD_LEN, HeaderWord, NONCE_TAIL_LEN, OVERHEAD, nonce};
use nf_wire::{checksum, ipv4};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Where the UDP payload begins: Ethernet, IPv4 without options, UDP.
pub const PAYLOAD: usize = ether::HEADER_LEN + ipv4::HEADER_LEN + 8;
/// The address and port of the measured gateway.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 1194);
/// The tunnel interface's MAC address.
pub const INTERFACE: Mac = [0x02, 0, 0, 0, 0, 1];
/// One frame in this many is foreign: UDP to a port on which nobody listens.
const FOREIGN: usize = 100;
/// The key id of every peer's one key.
const KEY_ID: u8 = 0;

/// One peer: a flow with a key of its own.
pub struct Sender {
    key: Arc<KeySlot<Key>>,
    next_id: u32,
}

impl Sender {
    /// The peer's key.
    pub fn key(&self) -> &KeySlot<Key> {
        &self.key
    }
}

/// What one frame of a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A record of this peer with this packet id.
    Record(u32, u32),
    /// Not for us.
    Foreign,
}

/// All peers, and the order in which they send.
pub struct Traffic {
    /// By peer id.
    pub senders: Vec<Sender>,
    size: usize,
    run: RunLength,
    random: fastrand::Rng,
}

impl Traffic {
    /// `peers` peers that send inner packets of `size` bytes.
    pub fn new(imb: &Imb, cipher: Cipher, peers: u32, size: u16, run: RunLength) -> Result<Self, Failure> {
        // Always the same keys and orders: a measurement that can be repeated. They protect nothing.
        let mut random = fastrand::Rng::with_seed(0x6f76_706e);
        let mut senders = Vec::with_capacity(peers as usize);
        for _ in 0..peers {
            let mut bytes = vec![0; cipher.key_len()];
            random.fill(&mut bytes);
            let tail: [u8; NONCE_TAIL_LEN] = random.u64(..).to_ne_bytes();
            let direction = || {
                let key = Key::expand(imb, cipher, &bytes).map_err(Failure::machine)?;
                Ok(Direction {
                    key,
                    nonce_tail: tail,
                })
            };
            let key = KeySlot::new(cipher, KEY_ID, direction()?, direction()?);
            senders.push(Sender { key, next_id: 1 });
        }
        Ok(Traffic {
            senders,
            size: usize::from(size),
            run,
            random,
        })
    }

    /// A worker's table of all peers, with the source check on.
    pub fn table(&self) -> Result<Tunnel<Key>, Failure> {
        let (mut peers, mut sources) = (PeerTable::new(), Routes::default());
        for (id, sender) in (0..).zip(&self.senders) {
            let address = inner_address(id);
            let mut peer = Peer::new(
                id,
                Addresses {
                    v4: Some(address),
                    v6: None,
                },
            );
            let _ = peer.keys.install_primary(sender.key.clone());
            sources
                .insert(IpNet::from(IpAddr::V4(address)), id)
                .map_err(Failure::machine)?;
            peers.insert(peer).map_err(Failure::machine)?;
        }
        Ok(Tunnel {
            peers,
            sources: Some(sources),
            interface: INTERFACE,
        })
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
                sender.next_id += 1;
                Frame::Record(peer, sender.next_id - 1)
            })
            .collect()
    }

    /// Takes all buffers that a round needs from the pool, in random order, and writes the frames into them.
    pub fn fill(&mut self, imb: &mut Imb, pool: &Mempool, plan: &[Frame]) -> Result<Vec<Mbuf>, Failure> {
        let mut buffers: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).take(plan.len()).collect();
        if buffers.len() < plan.len() {
            return Err(Failure::machine(
                "the pool has fewer buffers than the round has frames",
            ));
        }
        self.random.shuffle(&mut buffers);
        for (buf, frame) in buffers.iter_mut().zip(plan) {
            self.write(imb, buf, *frame)?;
        }
        Ok(buffers)
    }

    fn write(&self, imb: &mut Imb, buf: &mut Mbuf, frame: Frame) -> Result<(), Failure> {
        let len = PAYLOAD + OVERHEAD + self.size;
        let bytes = buf
            .append(len)
            .ok_or_else(|| Failure::usage(format!("{} bytes do not fit", self.size)))?;
        let peer = match frame {
            Frame::Record(peer, _) => peer,
            Frame::Foreign => 0,
        };
        headers(bytes, peer, frame == Frame::Foreign);
        if let Frame::Record(peer, id) = frame {
            let payload = &mut bytes[PAYLOAD..];
            payload[..4].copy_from_slice(&HeaderWord::data_v2(KEY_ID, peer).0.to_be_bytes());
            payload[4..8].copy_from_slice(&id.to_be_bytes());
            plaintext(&mut payload[OVERHEAD..], peer, id);
            let (header, text) = payload.split_at_mut(OVERHEAD);
            let key = &self.senders[peer as usize].key;
            let aad = header.first_chunk::<AAD_LEN>().expect("a header's length");
            let nonce = nonce(id.to_be_bytes(), key.open_tail());
            let tag = imb.seal(key.open_key(), &nonce, aad, text);
            header[AAD_LEN..].copy_from_slice(&tag);
        }
        Ok(())
    }

    /// Whether a delivered frame is the one that record `id` of `peer` must give.
    pub fn is_right(&self, frame: &[u8], peer: u32, id: u32, scratch: &mut Vec<u8>) -> bool {
        scratch.clear();
        scratch.extend_from_slice(&ether::header(INTERFACE, ether::peer_mac(peer), ether::IPV4));
        scratch.resize(ether::HEADER_LEN + self.size, 0);
        plaintext(&mut scratch[ether::HEADER_LEN..], peer, id);
        frame == scratch.as_slice()
    }
}

/// A peer's VPN address.
fn inner_address(peer: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + 2 + peer)
}

/// Ethernet, IPv4 and UDP headers of one flow per peer.
fn headers(frame: &mut [u8], peer: u32, foreign: bool) {
    let len = frame.len();
    frame[..14].copy_from_slice(&ether::header(
        [0x02, 0, 0, 0, 0, 2],
        [0x02, 0, 0, 0, 0, 3],
        ether::IPV4,
    ));
    let ip = &mut frame[14..34];
    ip.copy_from_slice(&[
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 0, 192, 0, 2, 1,
    ]);
    ip[2..4].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    ip[14..16].copy_from_slice(&((peer >> 8) as u16).to_be_bytes());
    let sum = !checksum::fold(checksum::sum(ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = &mut frame[34..42];
    udp[..2].copy_from_slice(&(20_000 + (peer & 0xff) as u16).to_be_bytes());
    udp[2..4].copy_from_slice(&if foreign { 53u16 } else { LISTEN.port() }.to_be_bytes());
    udp[4..6].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    udp[6..].fill(0);
}

/// The inner packet of record `id` of `peer`: an IPv4 header from the peer's address, then bytes that only this
/// record has.
fn plaintext(inner: &mut [u8], peer: u32, id: u32) {
    let mut byte = peer.wrapping_mul(0x9e37_79b9) ^ id;
    for chunk in inner.chunks_mut(4) {
        byte = byte.wrapping_mul(0x85eb_ca6b).wrapping_add(0xc2b2_ae35);
        chunk.copy_from_slice(&byte.to_ne_bytes()[..chunk.len()]);
    }
    let len = inner.len() as u16;
    inner[..2].copy_from_slice(&[0x45, 0]);
    inner[2..4].copy_from_slice(&len.to_be_bytes());
    inner[12..16].copy_from_slice(&inner_address(peer).octets());
    inner[16..20].copy_from_slice(&[10, 255, 255, 1]);
}

/// The cache lines of a pool, walked to bring the caches to a stated state. Buffers first: they go back to the pool.
pub struct Walk {
    buffers: Vec<Mbuf>,
    _pool: Arc<Mempool>,
}

impl Walk {
    /// Holds every buffer of a pool.
    pub fn new(pool: Arc<Mempool>) -> Self {
        let mut buffers: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
        for buf in &mut buffers {
            let room = buf.room();
            buf.append(room);
        }
        Walk { buffers, _pool: pool }
    }

    /// Reads and writes one byte of every line.
    pub fn walk(&mut self) {
        for buf in &mut self.buffers {
            for line in buf.data_mut().chunks_mut(64) {
                line[0] = line[0].wrapping_add(1);
            }
        }
    }
}
