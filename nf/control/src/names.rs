//! Names and words: what is allowed, as `Result<_, String>` where the string says what is.

use std::net::SocketAddr;

use crate::config::PortKind;

/// Longest interface name in bytes (`IFNAMSIZ` less the final zero, linux/if.h).
const INTERFACE_MAX: usize = 15;
/// Longest ethdev name in bytes (`RTE_ETH_NAME_MAX_LEN` less the final zero, rte_ethdev.h).
const ETHDEV_MAX: usize = 63;

/// An instance name. It becomes part of file names.
pub(crate) fn instance(name: &str) -> Result<(), String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if (1..=32).contains(&name.len()) && name.bytes().all(allowed) && name != "." && name != ".." {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not allowed: 1 to 32 of letters, digits, '_', '.' and '-', and neither \".\" nor \"..\""
    ))
}

/// A kernel interface's name (`dev_valid_name` of Linux, and no '%', which would ask for a free number).
pub(crate) fn interface(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("an interface name is needed".into());
    }
    let bad = |c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace() || c.is_control();
    if name.len() > INTERFACE_MAX || name == "." || name == ".." || name.contains(bad) {
        return Err(format!(
            "{name:?} is no interface name: at most {INTERFACE_MAX} bytes, no '/', ':', '%' or blank, and neither \".\" nor \"..\""
        ));
    }
    Ok(())
}

/// An ethdev's name: a PCI address or a vdev name, without devargs.
pub(crate) fn ethdev(name: &str) -> Result<(), String> {
    let bad = |c: char| c == ',' || c.is_whitespace() || c.is_control();
    if name.len() > ETHDEV_MAX || name.contains(bad) {
        return Err(format!(
            "{name:?} is no port name: at most {ETHDEV_MAX} bytes, no blank, no ',' (devargs go to the EAL arguments)"
        ));
    }
    Ok(())
}

/// A port's kind. `kernel` says whether "kernel" is allowed.
pub(crate) fn port_kind(word: &str, kernel: bool) -> Result<PortKind, String> {
    match word {
        "auto" => Ok(PortKind::Auto),
        "virtio-user" => Ok(PortKind::VirtioUser),
        "tap" => Ok(PortKind::Tap),
        "kernel" if kernel => Ok(PortKind::Kernel),
        "kernel" => Err("\"kernel\" is for the host port only".into()),
        "" => Err("allowed: \"auto\", \"virtio-user\", \"tap\" or an EAL port's name".into()),
        name => ethdev(name).map(|()| PortKind::Ethdev(name.to_owned())),
    }
}

/// One of a fixed set of words.
pub(crate) fn word<T: Copy>(word: &str, allowed: &[(&str, T)]) -> Result<T, String> {
    allowed
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<String> = allowed.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            format!("{word:?} is not allowed: {}", names.join(" or "))
        })
}

/// A unicast MAC address, six two-digit hexadecimal bytes with ':' between.
pub(crate) fn mac(text: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("{text:?} is no unicast MAC address such as 02:00:00:00:00:01");
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|p| p.len() == 2).ok_or_else(wrong)?;
        hex::decode_to_slice(part, std::slice::from_mut(byte)).map_err(|_| wrong())?;
    }
    if parts.next().is_some() || mac == [0; 6] || mac[0] & 1 != 0 {
        Err(wrong())
    } else {
        Ok(mac)
    }
}

/// An address and port. The port is not 0.
pub(crate) fn socket_addr(text: &str) -> Result<SocketAddr, String> {
    let addr: Option<SocketAddr> = text.parse().ok();
    addr.filter(|a| a.port() != 0).ok_or_else(|| {
        format!(
            "{text:?} is no address with a port of 1 to 65535, such as 192.0.2.1:1194 or [2001:db8::1]:1194"
        )
    })
}

/// A peer's endpoint: an address and port that datagrams can be sent to.
pub(crate) fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let addr = socket_addr(text)?;
    if addr.ip().is_unspecified() || addr.ip().is_multicast() {
        return Err(format!("{text:?} is no unicast address"));
    }
    Ok(addr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn macs() {
        assert_eq!(mac("02:6f:76:00:0A:ff"), Ok([2, 0x6f, 0x76, 0, 0xa, 0xff]));
        for bad in [
            "",
            "02:6f:76:00:0a",
            "02:6f:76:00:0a:ff:00",
            "01:00:5e:00:00:01",
            "00:00:00:00:00:00",
            "2:6f:76:0:0a:f",
        ] {
            assert!(mac(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn interfaces() {
        assert_eq!(interface("wan0.100"), Ok(()));
        assert_eq!(interface("fifteen-bytes-x"), Ok(()));
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "sixteen-bytes-xx",
            "a\tb",
            "a:0",
            "tun%d",
        ] {
            assert!(interface(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = (mac(&text), socket_addr(&text), endpoint(&text), port_kind(&text, true), instance(&text));
            if interface(&text).is_ok() {
                prop_assert!(!text.is_empty() && text.len() <= 15 && !text.contains('/'));
            }
        }
    }
}
