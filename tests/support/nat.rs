//! A router with address translation, for the relay between two gateways: it gives the left side other addresses, and
//! answers for stations that do not exist.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::pair::End;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

/// Octets of an Ethernet address.
pub type Mac = [u8; 6];

/// Where a datagram comes from and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Source.
    pub src: SocketAddr,
    /// Destination.
    pub dst: SocketAddr,
}

/// A flow, by `address:port` of both.
pub fn flow(src: &str, dst: &str) -> Flow {
    let [src, dst] = [src, dst].map(|text| text.parse().expect("an address and a port"));
    Flow { src, dst }
}

/// The router.
#[derive(Default)]
pub struct Nat(Mutex<State>);

#[derive(Default)]
struct State {
    /// What datagrams of the left side look like to the right one, by what they are.
    there: BTreeMap<Flow, Flow>,
    /// What replies have to become: also those to flows that were replaced since.
    back: BTreeMap<Flow, Flow>,
    /// What the right side resolves these addresses to.
    stations: BTreeMap<Ipv4Addr, Mac>,
    /// Ethernet source address that datagrams of the left side have on the right side.
    source: Option<Mac>,
    /// All addresses that stations and `source` ever had: frames to them still arrive.
    all: BTreeSet<Mac>,
    /// Where such frames go: the left side's own address, as last seen.
    left: Mac,
    /// Flow and Ethernet destination of datagrams that came from the right side.
    replies: Vec<(Flow, Mac)>,
}

impl Nat {
    /// One that changes nothing.
    pub fn new() -> Arc<Nat> {
        Arc::default()
    }

    /// Datagrams of this flow of the left side look like that one from now on, and what answers that one still comes
    /// back when it is replaced again.
    pub fn translate(&self, inside: Flow, outside: Flow) {
        let mut state = self.state();
        state.there.insert(inside, outside);
        state.back.insert(reversed(outside), reversed(inside));
    }

    /// The right side resolves this address to that one, which stands for the left side.
    pub fn station(&self, address: Ipv4Addr, mac: Mac) {
        let mut state = self.state();
        state.stations.insert(address, mac);
        state.all.insert(mac);
    }

    /// Datagrams of the left side come from this address, as far as the right side sees.
    pub fn source(&self, mac: Mac) {
        let mut state = self.state();
        state.source = Some(mac);
        state.all.insert(mac);
    }

    /// Flow and Ethernet destination of the datagrams that came from the right side since the last call.
    pub fn replies(&self) -> Vec<(Flow, Mac)> {
        std::mem::take(&mut self.state().replies)
    }

    /// What becomes of a frame.
    pub fn pass(&self, from: End, mut frame: Vec<u8>) -> Vec<(End, Vec<u8>)> {
        let mut state = self.state();
        match from {
            End::Left => {
                let datagram = flow_of(&frame);
                if let Some(was) = datagram {
                    state.left = frame[6..12].try_into().expect("six bytes");
                    if let Some(outside) = state.there.get(&was) {
                        readdress(&mut frame, was, *outside);
                    }
                    if let Some(mac) = state.source {
                        frame[6..12].copy_from_slice(&mac);
                    }
                }
            }
            End::Right => {
                if let Some(answer) = state.answer(&frame) {
                    return vec![(End::Right, answer)];
                }
                if let Some(was) = flow_of(&frame) {
                    let dst: Mac = frame[..6].try_into().expect("six bytes");
                    state.replies.push((was, dst));
                    if state.all.contains(&dst) {
                        frame[..6].copy_from_slice(&state.left);
                    }
                    if let Some(inside) = state.back.get(&was) {
                        readdress(&mut frame, was, *inside);
                    }
                }
            }
        }
        vec![(from.other(), frame)]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    /// The reply to an ARP request for a station (RFC 826).
    fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let request = frame.get(12..22)? == [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
        let asked: [u8; 4] = frame.get(38..42)?.try_into().ok()?;
        let mac = self.stations.get(&asked.into()).filter(|_| request)?;
        let asker: [u8; 4] = frame[28..32].try_into().ok()?;
        Some(arp_reply(
            (*mac, asked.into()),
            (frame[6..12].try_into().ok()?, asker.into()),
        ))
    }
}

/// An ARP reply from one to another; to oneself, by broadcast, it is a gratuitous one.
pub fn arp_reply(from: (Mac, Ipv4Addr), to: (Mac, Ipv4Addr)) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(to.0);
    frame.extend(from.0);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    for (mac, address) in [from, to] {
        frame.extend(mac);
        frame.extend(address.octets());
    }
    frame
}

/// The flow of an untagged frame that holds a whole UDP datagram without IP options.
pub fn flow_of(frame: &[u8]) -> Option<Flow> {
    let (addresses, width, ports) = layout(frame)?;
    let address = |at: usize| -> Option<IpAddr> {
        let bytes = frame.get(at..at + width)?;
        match width {
            4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        }
    };
    let port = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    Some(Flow {
        src: SocketAddr::new(address(addresses)?, port(ports)?),
        dst: SocketAddr::new(address(addresses + width)?, port(ports + 2)?),
    })
}

/// Where its UDP payload begins.
pub fn payload_at(frame: &[u8]) -> usize {
    layout(frame).expect("a datagram").2 + 8
}

/// Gives a datagram other addresses. Checksums that were wrong stay so (RFC 1624).
pub fn readdress(frame: &mut [u8], was: Flow, flow: Flow) {
    let (addresses, width, ports) = layout(frame).expect("a datagram");
    let bytes = |address: IpAddr| match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let both = |f: Flow| [bytes(f.src.ip()), bytes(f.dst.ip())].concat();
    let both_ports = |f: Flow| [f.src.port().to_be_bytes(), f.dst.port().to_be_bytes()].concat();
    let (old, new) = (both(was), both(flow));
    assert_eq!(old.len(), new.len(), "one IP version");
    frame[addresses..addresses + 2 * width].copy_from_slice(&new);
    frame[ports..ports + 4].copy_from_slice(&both_ports(flow));
    if width == 4 {
        adjust(&mut frame[24..26], &old, &new);
    }
    let udp = &mut frame[ports + 6..ports + 8];
    adjust(udp, &old, &new);
    adjust(udp, &both_ports(was), &both_ports(flow));
    if *udp == [0, 0] {
        udp.fill(0xff);
    }
}

fn adjust(sum: &mut [u8], old: &[u8], new: &[u8]) {
    let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    let mut total = 0xffff - word(sum);
    total += old.chunks_exact(2).map(|pair| 0xffff - word(pair)).sum::<u32>();
    total += new.chunks_exact(2).map(word).sum::<u32>();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    sum.copy_from_slice(&(!(total as u16)).to_be_bytes());
}

/// Where the addresses begin, their width, and where UDP begins.
fn layout(frame: &[u8]) -> Option<(usize, usize, usize)> {
    match frame.get(12..14)? {
        [8, 0] if frame.get(14) == Some(&0x45) && frame.get(23) == Some(&17) => {
            let fragment = u16::from_be_bytes([*frame.get(20)?, *frame.get(21)?]) & 0x3fff;
            (fragment == 0).then_some((26, 4, 34))
        }
        [0x86, 0xdd] if frame.get(20) == Some(&17) => Some((22, 16, 54)),
        _ => None,
    }
}

fn reversed(flow: Flow) -> Flow {
    Flow {
        src: flow.dst,
        dst: flow.src,
    }
}
