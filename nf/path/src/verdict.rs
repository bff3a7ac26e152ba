//! Why a packet ended here. One list yields the enum, the names in tables and telemetry, and the counters.

macro_rules! drops {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The reason for which a packet was dropped. Each has a counter ([`crate::counters::Counters::drops`]).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All reasons, in the order of the path.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)+];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in tables, JSON and telemetry.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)+ }
            }

            /// One sentence for the manual.
            pub const fn about(self) -> &'static str {
                match self { $(DropReason::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

drops! {
    /// A scattered packet that did not fit into one large buffer, or no large buffer was free.
    Scattered = "scattered",
    /// The IPv4 header length or total length, or the IPv6 payload length, cannot be true.
    IpLength = "ip_length",
    /// The UDP length does not agree with the IP payload.
    UdpLength = "udp_length",
    /// The outer IPv4 header checksum is wrong.
    IpChecksum = "ip_checksum",
    /// The port says that the outer UDP checksum is wrong.
    UdpChecksum = "udp_checksum",
    /// Fewer than 4 bytes of UDP payload.
    TooShort = "too_short",
    /// DATA_V1, the data format without a peer id.
    DataV1 = "data_v1",
    /// A fragment whose datagram was not complete in time.
    FragmentTimeout = "fragment_timeout",
    /// A fragment that reassembly refused: it overlaps, has no room left, or contradicts the others.
    FragmentRefused = "fragment_refused",
    /// No peer has this peer id.
    UnknownPeer = "unknown_peer",
    /// The peer id is undefined and no peer has this source address and port.
    UnknownAddress = "unknown_address",
    /// The peer has no key with this key id.
    NoKey = "no_key",
    /// Shorter than header word, packet id and tag together.
    ShortRecord = "short_record",
    /// Packet id 0, which is never valid.
    ReplayZero = "replay_zero",
    /// Packet id older than the replay window or its floor.
    ReplayOld = "replay_old",
    /// Packet id that was accepted before.
    ReplayDuplicate = "replay_duplicate",
    /// The AEAD tag does not match.
    BadTag = "bad_tag",
    /// An authentic record without a plaintext.
    Empty = "empty",
    /// The plaintext is neither IPv4, IPv6 nor the keepalive, or shorter than its IP header.
    NotIp = "not_ip",
    /// The inner source address does not belong to this peer.
    BadSource = "bad_source",
    /// The frame is larger than the tunnel interface's MTU.
    TunnelMtu = "tunnel_mtu",
    /// The tunnel port did not take the frame.
    TunnelFull = "tunnel_full",
    /// The frame is larger than the host interface's MTU.
    HostMtu = "host_mtu",
    /// The host port did not take the frame.
    HostFull = "host_full",
    /// The frame is larger than the NIC's MTU.
    NicMtu = "nic_mtu",
    /// The NIC port did not take the frame.
    NicFull = "nic_full",
    /// A frame from the tunnel port that is shorter than its headers, or an IP length in it that cannot be true.
    TunnelLength = "tunnel_length",
    /// A frame from the tunnel port that is neither IP nor address resolution.
    NotIpFrame = "not_ip_frame",
    /// A frame from the tunnel port to the broadcast address.
    Broadcast = "broadcast",
    /// A frame from the tunnel port to a multicast address.
    Multicast = "multicast",
    /// A frame from the tunnel port whose destination MAC address is no peer's.
    UnknownMac = "unknown_mac",
    /// An inner packet to the outer address and port of the peer that would carry it.
    OwnOuter = "own_outer",
    /// An inner packet too large for a record, or a super-frame that cannot be segmented.
    Oversize = "oversize",
    /// No buffer was free for a packet that the path makes itself.
    NoBuffer = "no_buffer",
    /// The ring to the lcore that seals for this peer was full.
    SteerFull = "steer_full",
    /// The peer has no primary key to send with.
    NoPrimary = "no_primary",
    /// The key's packet ids are used up, or not reserved yet.
    NoPacketId = "no_packet_id",
    /// The peer's outer address is not known yet.
    NoRemote = "no_remote",
    /// The next hop's MAC address is not known yet.
    NoNeighbour = "no_neighbour",
    /// A packet larger than the NIC's MTU that could not be cut into fragments.
    Unfragmentable = "unfragmentable",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_indexes_dense() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|d| d.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::COUNT);
        for (i, d) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*d as usize, i);
            assert!(d.about().trim().ends_with('.'), "{d:?}");
        }
    }
}
