//! Netlink messages for tests.

/// A family of data channel offload.
#[derive(Clone, Copy)]
pub enum Family {
    /// `ovpn-dco-v2`, with the id 0x31 here: the library has to learn it.
    DcoV2,
    /// `ovpn`, with the id 0x32 here.
    Ovpn,
}

impl Family {
    /// Its id.
    pub fn id(self) -> u16 {
        match self {
            Family::DcoV2 => 0x31,
            Family::Ovpn => 0x32,
        }
    }

    fn name(self) -> &'static [u8] {
        match self {
            Family::DcoV2 => b"ovpn-dco-v2\0",
            Family::Ovpn => b"ovpn\0",
        }
    }
}

/// A message: `struct nlmsghdr` and what follows.
pub fn message(kind: u16, flags: u16, seq: u32, pid: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((16 + payload.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(seq.to_ne_bytes());
    bytes.extend(pid.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

fn answer(to: &[u8], kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from_ne_bytes(to[at..at + 4].try_into().unwrap());
    message(kind, flags, word(8), word(12), payload)
}

/// An attribute, padded.
pub fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((4 + payload.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// NLMSG_ERROR, capped; 0 is an acknowledgement.
pub fn error(to: &[u8], errno: i32) -> Vec<u8> {
    answer(to, 2, 0x100, &[&errno.to_ne_bytes()[..], &to[..16]].concat())
}

/// NLMSG_NOOP.
pub fn noop(to: &[u8]) -> Vec<u8> {
    answer(to, 1, 0, &[])
}

/// NLMSG_DONE.
pub fn done(to: &[u8]) -> Vec<u8> {
    answer(to, 3, 2, &[0; 4])
}

/// CTRL_CMD_GETFAMILY's answer for a family of ours.
pub fn family(to: &[u8], family: Family) -> Vec<u8> {
    let group = [attribute(1, b"peers\0"), attribute(2, &0x11_u32.to_ne_bytes())].concat();
    let body = [
        vec![1, 2, 0, 0],
        attribute(2, family.name()),
        attribute(1, &family.id().to_ne_bytes()),
        attribute(3, &1_u32.to_ne_bytes()),
        attribute(4, &0_u32.to_ne_bytes()),
        attribute(5, &8_u32.to_ne_bytes()),
        attribute(0x8007, &attribute(0x8001, &group)),
    ];
    answer(to, 16, 0, &body.concat())
}

/// CTRL_CMD_GETFAMILY's answer for `nlctrl`.
pub fn controller(to: &[u8]) -> Vec<u8> {
    let body = [
        vec![1, 2, 0, 0],
        attribute(2, b"nlctrl\0"),
        attribute(1, &16_u16.to_ne_bytes()),
        attribute(3, &2_u32.to_ne_bytes()),
        attribute(4, &0_u32.to_ne_bytes()),
        attribute(5, &10_u32.to_ne_bytes()),
    ];
    answer(to, 16, 0, &body.concat())
}

/// Whether a CTRL_CMD_GETFAMILY is about a family.
pub fn asks_for(request: &[u8], family: Family) -> bool {
    request.ends_with(&attribute(2, family.name()))
}

/// Whether a CTRL_CMD_GETFAMILY is about the controller.
pub fn asks_for_controller(request: &[u8]) -> bool {
    request.ends_with(&attribute(2, b"nlctrl\0"))
}

/// OVPN_CMD_DEL_PEER as a notification: a peer has expired.
pub fn expired(interface: u32, peer: u32) -> Vec<u8> {
    let nest = [attribute(1, &[2]), attribute(2, &peer.to_ne_bytes())].concat();
    let body = [
        vec![3, 0, 0, 0],
        attribute(1, &interface.to_ne_bytes()),
        attribute(0x8004, &nest),
    ]
    .concat();
    message(Family::DcoV2.id(), 0, 0, 0, &body)
}
