//! The kernel's network interfaces, by `ioctl(2)` as netdevice(7) describes it.

use std::ffi::{CString, c_char};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::Error;

/// Refuses what no kernel interface can be called, and what EAL device arguments cannot carry.
pub fn check_name(name: &str) -> Result<(), Error> {
    let fail = |why| {
        Err(Error::InterfaceName {
            name: name.into(),
            why,
        })
    };
    match name {
        "" => fail("is empty"),
        "." | ".." => fail("is refused by the kernel"),
        n if n.len() >= libc::IFNAMSIZ => fail("is longer than 15 bytes"),
        n if n
            .bytes()
            .any(|b| b.is_ascii_whitespace() || b.is_ascii_control() || b == 0x0b) =>
        {
            fail("holds white space")
        }
        n if n.contains(['/', ':']) => fail("holds '/' or ':', which the kernel refuses"),
        n if n.contains('%') => fail("holds '%', which makes it a pattern"),
        n if n.contains([',', '=', '[', ']', '(', ')', '"', '\'', '\\']) => {
            fail("holds a character that has a meaning in EAL device arguments")
        }
        _ => Ok(()),
    }
}

/// Whether the kernel has an interface of that name in this network namespace.
pub fn exists(name: &str) -> bool {
    // SAFETY: a C string.
    CString::new(name).is_ok_and(|n| unsafe { libc::if_nametoindex(n.as_ptr()) } != 0)
}

/// The kernel's number of an interface.
pub fn index(name: &str) -> Result<u32, Error> {
    let c_name = CString::new(name).map_err(|_| Error::InterfaceName {
        name: name.into(),
        why: "holds a NUL byte",
    })?;
    // SAFETY: a C string.
    match unsafe { libc::if_nametoindex(c_name.as_ptr()) } {
        0 => Err(failed(name, "finding it")),
        n => Ok(n),
    }
}

/// The Ethernet address that the kernel gives the interface.
pub fn mac(name: &str) -> Result<[u8; 6], Error> {
    let request = Request::new(name)?.call(libc::SIOCGIFHWADDR, "reading its Ethernet address")?;
    // SAFETY: SIOCGIFHWADDR fills this field of the union.
    let data = unsafe { request.0.ifr_ifru.ifru_hwaddr.sa_data };
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(data) {
        *to = from as u8;
    }
    Ok(mac)
}

/// The interface's MTU in bytes.
pub fn mtu(name: &str) -> Result<u32, Error> {
    let request = Request::new(name)?.call(libc::SIOCGIFMTU, "reading its MTU")?;
    // SAFETY: SIOCGIFMTU fills this field of the union.
    Ok(unsafe { request.0.ifr_ifru.ifru_mtu }.max(0) as u32)
}

/// Sets the interface's MTU in bytes.
pub fn set_mtu(name: &str, mtu: u32) -> Result<(), Error> {
    let mut request = Request::new(name)?;
    request.0.ifr_ifru.ifru_mtu = i32::try_from(mtu).unwrap_or(i32::MAX);
    request.call(libc::SIOCSIFMTU, "setting its MTU").map(drop)
}

/// Sets the interface up.
pub fn set_up(name: &str) -> Result<(), Error> {
    let mut request = Request::new(name)?.call(libc::SIOCGIFFLAGS, "reading its flags")?;
    // SAFETY: SIOCGIFFLAGS filled this field of the union.
    unsafe { request.0.ifr_ifru.ifru_flags |= libc::IFF_UP as i16 };
    request.call(libc::SIOCSIFFLAGS, "setting it up").map(drop)
}

struct Request(libc::ifreq);

impl Request {
    fn new(name: &str) -> Result<Request, Error> {
        check_name(name)?;
        // SAFETY: ifreq is integers and a union of them, for which zero is valid.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        // check_name leaves a place for the NUL byte.
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
        Ok(Request(request))
    }

    fn call(mut self, number: libc::Ioctl, what: &'static str) -> Result<Request, Error> {
        let name: String = self
            .0
            .ifr_name
            .iter()
            .take_while(|&&c| c != 0)
            .map(|&c| c as u8 as char)
            .collect();
        // SAFETY: no pointer involved.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(failed(&name, what));
        }
        // SAFETY: socket returned it, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the numbers used here read and write an ifreq.
        if unsafe { libc::ioctl(fd.as_raw_fd(), number, &mut self.0) } != 0 {
            return Err(failed(&name, what));
        }
        Ok(self)
    }
}

fn failed(interface: &str, what: &'static str) -> Error {
    Error::Interface {
        interface: interface.into(),
        what,
        source: io::Error::last_os_error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_can_have_are_refused() {
        for bad in [
            "",
            ".",
            "..",
            "a b",
            "a\tb",
            "a\nb",
            "a/b",
            "tun%d",
            "a,b",
            "a=b",
            "sixteen-bytes-xx",
            "eth0:1",
        ] {
            let error = check_name(bad).expect_err(bad).to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
        for good in ["ovpn0", "fifteen-bytes-x", "a.b", "wan_0"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn loopback_is_there_and_nonsense_is_not() {
        assert!(exists("lo") && !exists("nosuch0"));
        assert_eq!(mac("lo").expect("lo has an address of zeros"), [0; 6]);
        assert!(mtu("lo").expect("lo has an MTU") >= 1500);
        assert_eq!(index("lo").ok(), Some(1));
        let error = mtu("nosuch0").expect_err("it does not exist").to_string();
        assert!(error.contains("nosuch0") && !error.contains('\n'), "{error}");
    }
}
