//! The untimed round: whatever comes out is what must come out.

use crate::program::cli::{Checksum, Direction};
use crate::program::exit::Failure;
use crate::program::perf::frames::{self, PAYLOAD};
use crate::program::perf::rounds::Bench;
use crate::program::perf::traffic::{Frame, Traffic, record_header};
use lcore::{Burst, Eal, Imb, Mbuf, RingPort};
use nf_path::aead::Aead;
use nf_path::buf::Buf;
use nf_wire::ether;
use nf_wire::record::{AAD_LEN, OVERHEAD, nonce};
use std::collections::VecDeque;

/// What has not come out yet.
struct Expected {
    /// Each peer's packets by number, in order.
    packets: Vec<VecDeque<u32>>,
    /// Each peer's next packet id, outbound.
    next_ids: Vec<u64>,
    scratch: Vec<u8>,
}

/// A round through a worker whose frames go to a ring. Inbound, every record's plaintext arrives at the tunnel port,
/// once, in order within its peer. Outbound, every packet leaves in a record with the right headers that opens to it, once,
/// in order within its peer, under consecutive packet ids.
pub fn check(eal: &Eal, bench: &mut Bench) -> Result<(), Failure> {
    let mut sink = RingPort::new(eal, "perf_sink", 1023).map_err(Failure::machine)?;
    let mut gateway = bench.gateway(eal, "check", Some(&sink))?;
    let senders = &bench.traffic.senders;
    let mut expected = Expected {
        packets: vec![VecDeque::new(); senders.len()],
        next_ids: senders.iter().map(|s| s.key().ids().next()).collect(),
        scratch: Vec::new(),
    };
    for frame in bench.prepare_path(&mut gateway)? {
        if let Frame::Record(peer, number) = frame {
            expected.packets[peer as usize].push_back(number);
        }
    }
    let offload = bench.case.checksum == Checksum::Offload;
    let mut out = Burst::<256>::new();
    while gateway.poll() > 0 {
        while sink.take(&mut out) > 0 {
            for frame in out.iter_mut() {
                match bench.case.direction {
                    Direction::In => expected.delivered(&bench.traffic, frame),
                    Direction::Out => expected.sent(&bench.traffic, &mut bench.imb, frame, offload),
                }
                .map_err(Failure::machine)?;
            }
            out.clear();
        }
    }
    if expected.packets.iter().any(|numbers| !numbers.is_empty()) {
        return Err(Failure::machine("not every packet came out"));
    }
    Ok(())
}

impl Expected {
    /// A frame at the tunnel port.
    fn delivered(&mut self, traffic: &Traffic, frame: &Mbuf) -> Result<(), &'static str> {
        let frame = frame.data();
        let (ethernet, packet) = frame.split_at_checked(ether::HEADER_LEN).ok_or("a short frame")?;
        let peer = u32::from_be_bytes([0, ethernet[9], ethernet[10], ethernet[11]]);
        let right = ether::header(frames::INTERFACE, ether::peer_mac(peer), ether::IPV4);
        if ethernet != right {
            return Err("a delivered frame has a wrong Ethernet header");
        }
        self.packet(traffic, peer, packet)
    }

    /// A frame at the NIC port. It is opened with the other half of its peer's key.
    fn sent(
        &mut self,
        traffic: &Traffic,
        imb: &mut Imb,
        frame: &mut Mbuf,
        offload: bool,
    ) -> Result<(), &'static str> {
        let frame = frame.data_mut();
        let word = frame.get(PAYLOAD..PAYLOAD + AAD_LEN).ok_or("a short frame")?;
        let peer = u32::from_be_bytes([0, word[1], word[2], word[3]]);
        // Before it is opened in place: a UDP checksum covers the ciphertext.
        if !frames::is_sent(frame, peer, offload) {
            return Err("a sent frame has wrong outer headers");
        }
        let sender = traffic.senders.get(peer as usize).ok_or("a record of no peer")?;
        let next = &mut self.next_ids[peer as usize];
        let id = *next as u32;
        *next += 1;
        let right = record_header(peer, id);
        let (header, text) = frame[PAYLOAD..]
            .split_at_mut_checked(OVERHEAD)
            .ok_or("a short record")?;
        let (aad, tag) = header.split_at(AAD_LEN);
        if aad != right {
            return Err("a record has a wrong header word, or a packet id that is not the next");
        }
        let nonce = nonce(id.to_be_bytes(), sender.key().open_tail());
        if imb.open(sender.key().open_key(), &nonce, &right, text) != tag {
            return Err("a sent record does not open");
        }
        self.packet(traffic, peer, text)
    }

    /// The next inner packet of a peer.
    fn packet(&mut self, traffic: &Traffic, peer: u32, packet: &[u8]) -> Result<(), &'static str> {
        let number = self
            .packets
            .get_mut(peer as usize)
            .and_then(VecDeque::pop_front)
            .ok_or("a packet that was not expected")?;
        if traffic.is_right(packet, peer, number, &mut self.scratch) {
            Ok(())
        } else {
            Err("a plaintext is wrong")
        }
    }
}
