//! What a pair of gateways is made of: addresses, keys, configurations.

use super::relay::Change;
use super::{HOST, NIC, TUNNEL};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Peer 0 has this UDP port on both sides, the next peer the next.
pub const FIRST_PORT: u16 = 1194;

/// What a pair is made of.
pub struct Plan<'a> {
    /// Whether IPv6 is outside, instead of IPv4.
    pub outer_v6: bool,
    /// Peers, at most ten.
    pub peers: u32,
    /// Largest IP packet on the veth.
    pub nic_mtu: u16,
    /// Largest inner packet.
    pub tunnel_mtu: u16,
    /// "AES-128-GCM", "AES-192-GCM", "AES-256-GCM" or "CHACHA20-POLY1305".
    pub cipher: &'a str,
    /// More lines of the top level of both configurations.
    pub general: &'a str,
    /// More lines of `[nic]`.
    pub nic: &'a str,
    /// More lines of `[[tunnel]]`.
    pub tunnel: &'a str,
    /// More lines of `[[tunnel]]` of the right side only.
    pub right_tunnel: &'a str,
    /// More lines of each `[[tunnel.peer]]`.
    pub peer: &'a str,
    /// More lines of each `[[tunnel.peer]]` of the left side and of the right one.
    pub peer_of: [&'a str; 2],
    /// More lines of `[nic]` of the left side and of the right one.
    pub nic_of: [&'a str; 2],
    /// More listening addresses of the left side and of the right one.
    pub listen: [&'a [&'a str]; 2],
    /// Both keys files, instead of new ones with one key for each peer: see [`keys`].
    pub keys: Option<[String; 2]>,
    /// The state files, for more than one run; each is beside its configuration unless it begins with `/`.
    pub state_files: [String; 2],
    /// What frames between the gateways pass through, instead of one veth pair.
    pub relay: Option<Arc<Change>>,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Plan {
            outer_v6: false,
            peers: 3,
            nic_mtu: 1500,
            tunnel_mtu: 1400,
            cipher: "AES-256-GCM",
            general: "",
            nic: "",
            tunnel: "",
            right_tunnel: "",
            peer: "",
            peer_of: [""; 2],
            nic_of: [""; 2],
            listen: [&[]; 2],
            keys: None,
            state_files: ["ids".into(), "ids".into()],
            relay: None,
        }
    }
}

/// Which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// CPU 0.
    Left,
    /// CPU 1.
    Right,
}

impl End {
    /// 0 for the left one, 1 for the right one.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The other side.
    pub fn other(self) -> End {
        match self {
            End::Left => End::Right,
            End::Right => End::Left,
        }
    }

    /// The outer address.
    pub fn outer(self, v6: bool) -> IpAddr {
        let last = self.index() as u8 + 1;
        if v6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()).into()
        } else {
            Ipv4Addr::new(192, 0, 2, last).into()
        }
    }

    /// The VPN address that belongs to a peer.
    pub fn vpn(self, peer: u32, v6: bool) -> IpAddr {
        let side = self.index() as u8;
        if v6 {
            let last = (0xa0 + 0x10 * u16::from(side)) + peer as u16;
            Ipv6Addr::new(0xfd08, 0, 0, 0, 0, 0, 0, last).into()
        } else {
            Ipv4Addr::new(10, 8, 0, 10 + 10 * side + peer as u8).into()
        }
    }
}

/// Both keys files, of new keys: the right side's is the left's with `encrypt` and `decrypt` exchanged.
pub fn keys(plan: &Plan) -> [String; 2] {
    let hexadecimal = |bytes: usize| {
        (0..bytes)
            .map(|_| format!("{:02x}", fastrand::u8(..)))
            .collect::<String>()
    };
    let key_len = match plan.cipher {
        "AES-128-GCM" => 16,
        "AES-192-GCM" => 24,
        _ => 32,
    };
    let material = || json!({ "key": hexadecimal(key_len), "nonce_tail": hexadecimal(8) });
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for peer in 0..plan.peers {
        let (there, back) = (material(), material());
        let entry = |encrypt: &Value, decrypt: &Value| json!({ "peer_id": peer, "key_id": 0, "cipher": plan.cipher, "encrypt": encrypt, "decrypt": decrypt });
        left.push(entry(&there, &back));
        right.push(entry(&back, &there));
    }
    let file = |end: End, keys: Vec<Value>| json!({ "listen": listen(plan, end), "keys": keys }).to_string();
    [file(End::Left, left), file(End::Right, right)]
}

/// The addresses and ports that a side listens on.
fn listen(plan: &Plan, end: End) -> Vec<String> {
    let more = plan.listen[end.index()]
        .iter()
        .map(|address| (*address).to_owned());
    (0..plan.peers)
        .map(|peer| endpoint(plan, end, peer))
        .chain(more)
        .collect()
}

fn endpoint(plan: &Plan, end: End, peer: u32) -> String {
    SocketAddr::new(end.outer(plan.outer_v6), FIRST_PORT + peer as u16).to_string()
}

/// A side's configuration, but for the name.
pub fn configuration(plan: &Plan, end: End) -> String {
    let Plan {
        general,
        nic,
        tunnel,
        nic_mtu,
        tunnel_mtu,
        ..
    } = plan;
    // A frame of the ring holds its own header and the packet; a block is a power of two of pages that frames divide.
    let frame = if *nic_mtu <= 1900 { 2048 } else { 16384 };
    let vdev = format!("net_af_packet0,iface={NIC},blocksz=65536,framesz={frame},framecnt=4096");
    let one_sided = match end {
        End::Left => "",
        End::Right => plan.right_tunnel,
    };
    let peers: String = (0..plan.peers)
        .map(|peer| {
            format!(
                "[[tunnel.peer]]\nid = {peer}\nremote = \"{}\"\nlocal = \"{}\"\naddresses = [\"{}\", \"{}\"]\n{}\n{}\n",
                endpoint(plan, end.other(), peer),
                endpoint(plan, end, peer),
                end.other().vpn(peer, false),
                end.other().vpn(peer, true),
                plan.peer,
                plan.peer_of[end.index()]
            )
        })
        .collect();
    format!(
        "eal = [\"--vdev={vdev}\"]\nlcores = \"{}\"\nidle_sleep_us = 50\ninsecure_static_keys = true\n\
         state_file = \"{}\"\n{general}\n\
         [nic]\nport = \"net_af_packet0\"\nmtu = {nic_mtu}\n{nic}\n{}\n\
         [host]\nkind = \"tap\"\ninterface = \"{HOST}\"\n\
         [metrics]\nlisten = \"\"\n\
         [[tunnel]]\nkind = \"tap\"\ninterface = \"{TUNNEL}\"\nmode = \"mp\"\nmtu = {tunnel_mtu}\n\
         listen = {:?}\nkeys_file = \"keys.json\"\n{tunnel}\n{one_sided}\n{peers}",
        end.index(),
        plan.state_files[end.index()],
        plan.nic_of[end.index()],
        listen(plan, end),
    )
}
