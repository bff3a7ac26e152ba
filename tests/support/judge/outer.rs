//! Outer packets: whether each that left a gateway is as it has to be.

use super::inner::first;
use super::packet::{Frame, Ip, UDP, checksum_right};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

/// DATA_V2's opcode, and the bytes of header word, packet id and tag.
const DATA_V2: u8 = 9;
const OVERHEAD: usize = 24;
/// An Ethernet frame shorter than this, without its check sequence, is padded.
const SHORTEST: usize = 60;

/// What is known of a gateway.
pub struct Gateway {
    /// The outer address.
    pub address: IpAddr,
    /// Its NIC's.
    pub mac: [u8; 6],
    /// The UDP ports that it listens on.
    pub ports: Vec<u16>,
}

/// What packets are judged by.
pub struct Rules {
    /// The left one and the right one.
    pub gateways: [Gateway; 2],
    /// Largest IP packet.
    pub mtu: usize,
    /// Peer ids are below this.
    pub peers: u32,
    /// Whether ids of a key have to grow; they may never repeat.
    pub ids_in_order: bool,
}

/// Sender (0 is the left one), peer id, key id.
pub type Stream = (usize, u32, u8);

/// What there was.
#[derive(Default)]
pub struct Outer {
    /// Records, by sender.
    pub records: [usize; 2],
    /// Records of 40 bytes: those of the keepalive, and of any other 16 bytes.
    pub keepalive_sized: [usize; 2],
    /// Records that came in fragments, by sender.
    pub fragmented: [usize; 2],
    /// First and last packet id and number of records of each key.
    pub ids: BTreeMap<Stream, (u32, u32, usize)>,
    /// How many frames had an 802.1Q tag.
    pub tagged: usize,
    /// Frames that are none of our records.
    pub others: usize,
    /// What should not be.
    pub faults: Vec<String>,
}

/// The pieces of a datagram so far: offset, bytes, whether others follow.
type Pieces = Vec<(usize, Vec<u8>, bool)>;

/// Judges every frame.
pub fn check(frames: &[Vec<u8>], rules: &Rules) -> Outer {
    let mut outer = Outer::default();
    let mut pieces: HashMap<(usize, u32), Pieces> = HashMap::new();
    let mut used: HashMap<Stream, HashSet<u32>> = HashMap::new();
    for (i, bytes) in frames.iter().enumerate() {
        let (frame, ip, sender) = match ours(bytes, rules) {
            Ok(Some(parts)) => parts,
            Ok(None) => {
                outer.others += 1;
                continue;
            }
            Err(why) => {
                outer.faults.push(format!("frame {i}: {why}"));
                continue;
            }
        };
        outer.tagged += usize::from(frame.tags > 0);
        let mut wrong = header_faults(&frame, &ip, sender, rules);
        let datagram = match ip.fragment {
            None => Some(ip.payload.to_vec()),
            Some(fragment) => {
                let key = (sender, fragment.id);
                let so_far = pieces.entry(key).or_default();
                so_far.push((fragment.offset, ip.payload.to_vec(), fragment.more));
                if fragment.more && ip.payload.len() % 8 != 0 {
                    wrong.push("a fragment that is no multiple of 8 bytes".to_owned());
                }
                let whole = whole(so_far).unwrap_or_else(|why| {
                    wrong.push(why);
                    None
                });
                if whole.is_some() {
                    pieces.remove(&key);
                    outer.fragmented[sender] += 1;
                }
                whole
            }
        };
        if let Some(datagram) = datagram {
            wrong.extend(record(&mut outer, &mut used, (&ip, &datagram, sender), rules));
        }
        outer
            .faults
            .extend(wrong.iter().map(|why| format!("frame {i}: {why}")));
    }
    for (sender, id) in pieces.keys() {
        let whose = ["left", "right"][*sender];
        outer
            .faults
            .push(format!("datagram {id:#x} of the {whose} side never got whole"));
    }
    outer
}

/// The frame, its packet and its sender, if it is UDP from a gateway to a port of a gateway, or a fragment of UDP between
/// them; host traffic passes as well, but not on these ports. The error says what is wrong with the lengths of an IP
/// packet that came from a gateway.
fn ours<'a>(bytes: &'a [u8], rules: &Rules) -> Result<Option<(Frame<'a>, Ip<'a>, usize)>, String> {
    let Some(frame) = Frame::parse(bytes) else {
        return Err(format!("a frame of {} bytes", bytes.len()));
    };
    let sender = rules.gateways.iter().position(|g| g.mac == frame.src);
    let Some(sender) = sender.filter(|_| frame.is_ip()) else {
        return Ok(None);
    };
    let ip = Ip::parse(frame.payload)?;
    let is_ours = match ip.fragment {
        Some(_) => rules.gateways.iter().any(|g| g.address == ip.dst),
        None => {
            let port = ip.payload.get(2..4).map(|b| u16::from_be_bytes([b[0], b[1]]));
            port.is_some_and(|port| rules.gateways[1 - sender].ports.contains(&port))
        }
    };
    Ok((is_ours && ip.protocol == UDP).then_some((frame, ip, sender)))
}

/// Ethernet and IP.
fn header_faults(frame: &Frame, ip: &Ip, sender: usize, rules: &Rules) -> Vec<String> {
    let (own, other) = (&rules.gateways[sender], &rules.gateways[1 - sender]);
    let padding = frame.payload.len() - ip.bytes.len();
    let checks = [
        (frame.dst == other.mac, format!("to {:02x?}", frame.dst)),
        (
            padding == 0 || frame.len <= SHORTEST,
            format!("{padding} bytes more than its length field says"),
        ),
        (ip.bytes.len() <= rules.mtu, format!("{} bytes", ip.bytes.len())),
        (ip.header_right, "IPv4 header checksum".to_owned()),
        (!ip.options, "options or extension headers".to_owned()),
        (ip.ttl == 64, format!("TTL {}", ip.ttl)),
        (ip.tos == 0, format!("TOS {}", ip.tos)),
        (!ip.dont_fragment, "DF".to_owned()),
        (ip.src == own.address, format!("from {}", ip.src)),
        (ip.dst == other.address, format!("to {}", ip.dst)),
    ];
    checks
        .into_iter()
        .filter(|(holds, _)| !holds)
        .map(|(_, why)| why)
        .collect()
}

/// The datagram, if no piece is missing. The error says what does not fit.
fn whole(pieces: &mut Pieces) -> Result<Option<Vec<u8>>, String> {
    pieces.sort_by_key(|piece| piece.0);
    let mut datagram = Vec::new();
    let last = pieces.len() - 1;
    for (n, (offset, bytes, more)) in pieces.iter().enumerate() {
        if *offset < datagram.len() {
            return Err(format!("fragments overlap at {offset}"));
        }
        if *offset > datagram.len() {
            return Ok(None);
        }
        if !more && n != last {
            return Err("a fragment behind the last".to_owned());
        }
        datagram.extend(bytes);
    }
    Ok((!pieces[last].2).then_some(datagram))
}

/// UDP and what it carries.
fn record(
    outer: &mut Outer,
    used: &mut HashMap<Stream, HashSet<u32>>,
    (ip, datagram, sender): (&Ip, &[u8], usize),
    rules: &Rules,
) -> Vec<String> {
    let word = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
    if datagram.len() < 8 + OVERHEAD + 1 {
        return vec![format!("a datagram of {} bytes", datagram.len())];
    }
    let mut faults = Vec::new();
    let mut must = |holds: bool, why: String| faults.extend((!holds).then_some(why));
    let (src, dst) = (word(0), word(2));
    let [own, other] = [sender, 1 - sender].map(|i| &rules.gateways[i].ports);
    must(
        own.contains(&src) && other.contains(&dst),
        format!("UDP port {src} to {dst}"),
    );
    must(
        usize::from(word(4)) == datagram.len(),
        format!("UDP length {} of {}", word(4), datagram.len()),
    );
    // Also zero over IPv4 is wrong here: ours have one.
    must(
        checksum_right(ip.src, ip.dst, UDP, datagram) == Some(true),
        "UDP checksum".to_owned(),
    );
    let record = &datagram[8..];
    must(record[0] >> 3 == DATA_V2, format!("opcode {}", record[0] >> 3));
    let peer = u32::from_be_bytes([0, record[1], record[2], record[3]]);
    must(peer < rules.peers, format!("peer {peer}"));
    let id = u32::from_be_bytes(record[4..8].try_into().expect("four bytes"));
    must(id != 0, "packet id 0".to_owned());
    let stream = (sender, peer, record[0] & 7);
    must(
        used.entry(stream).or_default().insert(id),
        format!("id {id} of {stream:?} again"),
    );
    let (_, last, count) = outer.ids.entry(stream).or_insert((id, 0, 0));
    must(
        !rules.ids_in_order || id > *last,
        format!("id {id} of {stream:?} after {last}"),
    );
    (*last, *count) = (id.max(*last), *count + 1);
    outer.records[sender] += 1;
    outer.keepalive_sized[sender] += usize::from(record.len() == OVERHEAD + 16);
    faults
}

impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "records {:?}, of these {:?} in fragments; {} tagged; {} other frames; ids {:?}; faults {}",
            self.records,
            self.fragmented,
            self.tagged,
            self.others,
            self.ids,
            first(&self.faults)
        )
    }
}
