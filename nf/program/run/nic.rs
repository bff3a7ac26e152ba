//! What is particular about a NIC port of the driver net_af_packet, as its EAL argument says it.

/// The driver's default `framesz`, in bytes (`packet_mmap.rst` calls it the frame size).
const FRAME_SIZE: u32 = 2048;
/// Bytes in front of the data in each place of the receive ring: `struct tpacket2_hdr`, `struct sockaddr_ll`, alignment.
const FRAME_HEADER: u32 = 66;
/// What the driver says of itself, whatever its `framesz` (`max_rx_pktlen` is 1514 bytes).
const MAX_MTU: u16 = 1500;
/// Ethernet header and one VLAN tag.
const HEADER: u32 = 18;

/// A net_af_packet device: an interface that the kernel goes on to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfPacket {
    /// The interface.
    pub interface: String,
    /// Longest frame that arrives whole, in bytes. What is longer is cut silently.
    pub longest: u32,
}

impl AfPacket {
    /// The device behind the port `port`, if one of the EAL arguments makes it by net_af_packet.
    pub fn of(arguments: &[String], port: &str) -> Option<AfPacket> {
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let device = match word.strip_prefix("--vdev") {
                Some("") => words.next()?.as_str(),
                Some(rest) => rest.strip_prefix('=').unwrap_or(rest),
                None => continue,
            };
            let mut parts = device.split(',');
            if parts.next() != Some(port)
                || !port
                    .trim_start_matches("eth_")
                    .trim_start_matches("net_")
                    .starts_with("af_packet")
            {
                continue;
            }
            let (mut interface, mut size) = (None, FRAME_SIZE);
            for part in parts {
                match part.split_once('=') {
                    Some(("iface", name)) => interface = Some(name.to_owned()),
                    Some(("framesz", bytes)) => size = bytes.parse().unwrap_or(FRAME_SIZE),
                    _ => {}
                }
            }
            return interface.map(|interface| AfPacket {
                interface,
                longest: size.saturating_sub(FRAME_HEADER),
            });
        }
        None
    }

    /// Refuses an MTU of ours whose frames would arrive cut.
    pub fn check_mtu(&self, mtu: u16) -> Result<(), String> {
        if mtu > MAX_MTU {
            return Err(format!(
                "nic.mtu: {mtu} is too large for net_af_packet: at most {MAX_MTU}"
            ));
        }
        let wanted = u32::from(mtu) + HEADER;
        if wanted <= self.longest {
            return Ok(());
        }
        Err(format!(
            "nic.mtu: {mtu} does not fit net_af_packet's frames: with its framesz, frames over {} bytes arrive cut; add \
             framesz={} (and a blocksz that is a multiple of it) to the EAL argument, or lower the MTU",
            self.longest,
            (wanted + FRAME_HEADER).next_power_of_two()
        ))
    }

    /// What the operator should hear about the interface's own MTU.
    pub fn check_interface(&self, mtu: u32) -> Option<String> {
        (mtu + HEADER > self.longest).then(|| {
            format!(
                "{} has an MTU of {mtu}: frames over {} bytes would arrive cut, and be dropped as ip_length",
                self.interface, self.longest
            )
        })
    }

    /// What the operator should hear once datagrams to a listening address were dropped as `ip_length`.
    pub fn cut(&self) -> String {
        format!(
            "{}: frames arrive cut, or malformed (ip_length): net_af_packet hands over at most {} bytes of one; \
             segmentation offload of the other end must be off, or its MTU is larger than ours",
            self.interface, self.longest
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn the_device_is_found_in_either_spelling() {
        let expected = AfPacket {
            interface: "veth0".into(),
            longest: 1982,
        };
        for text in [
            "--vdev=net_af_packet0,iface=veth0",
            "--no-pci --vdev net_af_packet0,qpairs=1,iface=veth0 -m 64",
        ] {
            assert_eq!(
                AfPacket::of(&words(text), "net_af_packet0"),
                Some(expected.clone())
            );
        }
        assert_eq!(
            AfPacket::of(&words("--vdev=net_af_packet0,iface=veth0"), "net_af_packet1"),
            None
        );
        assert_eq!(
            AfPacket::of(&words("--vdev=net_tap0,iface=veth0"), "net_tap0"),
            None
        );
        assert_eq!(AfPacket::of(&words("--vdev"), "net_af_packet0"), None);
    }

    #[test]
    fn an_mtu_that_would_be_cut_is_refused_with_what_would_do() {
        let nic = AfPacket::of(&words("--vdev=net_af_packet0,iface=v"), "net_af_packet0").unwrap();
        assert_eq!(nic.check_mtu(1500), Ok(()));
        assert!(nic.check_mtu(1501).unwrap_err().ends_with("at most 1500"));
        assert!(nic.check_interface(9000).unwrap().contains("1982"));
        assert!(nic.cut().starts_with("v: frames arrive cut") && nic.cut().contains("1982"));
        let small = AfPacket::of(
            &words("--vdev=net_af_packet0,iface=v,framesz=1024"),
            "net_af_packet0",
        )
        .unwrap();
        assert_eq!(small.check_mtu(940), Ok(()));
        assert!(small.check_mtu(941).unwrap_err().contains("framesz=2048"));
        let large = "--vdev=net_af_packet0,iface=v,framesz=16384";
        let large = AfPacket::of(&words(large), "net_af_packet0").unwrap();
        assert_eq!(large.check_interface(9000), None);
    }
}
