//! Asks a gateway, by its control socket, how it is.

use crate::program::exit::Failure;
use ovpn_dco_protocol::{GENERIC, HEADER_LEN, HELLO, MAX_PACKET, STATUS, VERSION};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where gateways have their sockets unless configured otherwise.
pub const FOLDER: &str = nf_kernel::FOLDER;

/// How long a gateway may be silent.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The longest document taken, in bytes: some 100,000 peers.
const LONGEST: usize = 256 << 20;

/// NLMSG_ERROR and NLMSG_DONE of linux/netlink.h.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// NLM_F_REQUEST and NLM_F_ACK.
const REQUEST: u16 = 1;
const ACK: u16 = 4;
/// NLM_F_ACK_TLVS, and the attribute that has the reason in words (NLMSGERR_ATTR_MSG).
const ACK_TLVS: u16 = 0x200;
const REASON: u16 = 1;

/// The only socket `*.sock` in a folder.
///
/// # Errors
/// Machine: there is none. Usage: there are several; the line names them.
pub fn find(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(Result::ok).map(|e| e.path()).collect(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Failure::machine(format!("{}: {e}", folder.display()))),
    };
    let mut sockets: Vec<PathBuf> = entries;
    sockets.retain(|path| path.extension().is_some_and(|e| e == "sock"));
    sockets.sort();
    match sockets.as_slice() {
        [] => Err(Failure::machine(format!(
            "no gateway runs: there is no *.sock in {} (--config or --socket say where else to ask)",
            folder.display()
        ))),
        [one] => Ok(one.clone()),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            Err(Failure::usage(format!(
                "several gateways: say which with --socket: {}",
                names.join(", ")
            )))
        }
    }
}

/// The report of the gateway that listens at `path`, as JSON.
///
/// # Errors
/// Machine, with what to do: nobody listens there, we may not connect, it is silent for `patience`, or what it says makes no
/// sense.
pub fn ask(path: &Path, patience: Duration) -> Result<Vec<u8>, Failure> {
    let at = |what: String| Failure::machine(format!("{}: {what}", path.display()));
    let socket = open(path, patience).map_err(|e| at(cannot_connect(path, e)))?;
    let lost = |e: Errno| at(lost(path, e, patience));
    let hello: Vec<u8> = [VERSION, GENERIC].iter().flat_map(|n| n.to_ne_bytes()).collect();
    say(&socket, HELLO, 1, &hello).map_err(lost)?;
    let mut buffer = vec![0; MAX_PACKET];
    let mut document = Vec::new();
    let mut greeted = false;
    loop {
        let packet = hear(&socket, &mut buffer).map_err(lost)?;
        let Some(packet) = packet else {
            return Err(lost(Errno::CONNRESET));
        };
        let packet =
            Packet::parse(packet).ok_or_else(|| at("what it answers is no netlink message".into()))?;
        match (packet.kind, packet.seq) {
            (ERROR, 1) if !greeted => {
                packet
                    .acknowledged()
                    .map_err(|why| at(format!("the gateway refuses: {why}")))?;
                greeted = true;
                say(&socket, STATUS, 2, &[]).map_err(lost)?;
            }
            (ERROR, 2) => packet
                .acknowledged()
                .map_err(|why| at(format!("no report: {why}")))?,
            (STATUS, 2) if document.len() + packet.payload.len() > LONGEST => {
                return Err(at(format!("its report is longer than {} MiB", LONGEST >> 20)));
            }
            (STATUS, 2) => document.extend_from_slice(packet.payload),
            (DONE, 2) => return Ok(document),
            _ => {}
        }
    }
}

/// A connection on which nothing waits for longer than `patience`.
fn open(path: &Path, patience: Duration) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    for which in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, which, Some(patience))?;
    }
    connect(&socket, &address)?;
    Ok(socket)
}

/// Sends one message.
fn say(socket: &OwnedFd, kind: u16, seq: u32, payload: &[u8]) -> Result<(), Errno> {
    let length = (HEADER_LEN + payload.len()) as u32;
    let mut packet = Vec::with_capacity(length as usize);
    packet.extend_from_slice(&length.to_ne_bytes());
    packet.extend_from_slice(&kind.to_ne_bytes());
    packet.extend_from_slice(&(REQUEST | ACK).to_ne_bytes());
    packet.extend_from_slice(&seq.to_ne_bytes());
    packet.extend_from_slice(&std::process::id().to_ne_bytes());
    packet.extend_from_slice(payload);
    send(socket, &packet, SendFlags::NOSIGNAL).map(|_| ())
}

/// The next packet; None: the gateway has hung up.
fn hear<'a>(socket: &OwnedFd, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, Errno> {
    let (length, _) = rustix::io::retry_on_intr(|| recv(socket, &mut *buffer, RecvFlags::empty()))?;
    Ok((length > 0).then_some(&buffer[..length]))
}

/// One netlink message.
struct Packet<'a> {
    kind: u16,
    flags: u16,
    seq: u32,
    payload: &'a [u8],
}

impl Packet<'_> {
    fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
        let length = number(bytes, 0)? as usize;
        Some(Packet {
            kind: half(bytes, 4)?,
            flags: half(bytes, 6)?,
            seq: number(bytes, 8)?,
            payload: bytes.get(HEADER_LEN..length)?,
        })
    }

    /// `struct nlmsgerr`: the error, the header of the request, and with NLM_F_ACK_TLVS attributes.
    fn acknowledged(&self) -> Result<(), String> {
        match number(self.payload, 0).map(u32::cast_signed) {
            Some(0) => Ok(()),
            Some(e) => {
                let words = self
                    .reason()
                    .map(|words| format!(": {words}"))
                    .unwrap_or_default();
                let errno = std::io::Error::from_raw_os_error(e.saturating_neg());
                Err(format!("{errno}{words}"))
            }
            None => Err("an error message that is cut".into()),
        }
    }

    /// The reason in words of an extended acknowledgement.
    fn reason(&self) -> Option<String> {
        let mut rest = self
            .payload
            .get(4 + HEADER_LEN..)
            .filter(|_| self.flags & ACK_TLVS != 0)?;
        loop {
            let (length, kind) = (usize::from(half(rest, 0)?), half(rest, 2)?);
            let value = rest.get(4..length)?;
            if kind == REASON {
                let text = String::from_utf8_lossy(value);
                return Some(text.trim_end_matches('\0').to_owned());
            }
            rest = rest.get(length.next_multiple_of(4)..)?;
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

/// Why there is no connection, and what to do.
fn cannot_connect(path: &Path, error: Errno) -> String {
    match error {
        Errno::NOENT => "no gateway runs: there is no such socket".into(),
        Errno::CONNREFUSED => "no gateway runs: nobody listens at this socket".into(),
        Errno::ACCESS | Errno::PERM => not_allowed(path),
        Errno::PROTOTYPE | Errno::NOTSOCK => "not the control socket of a gateway".into(),
        Errno::NAMETOOLONG => "longer than the path of a socket can be".into(),
        Errno::AGAIN => "the gateway does not take connections: is it stopped or stuck?".into(),
        other => other.to_string(),
    }
}

/// Why the connection is lost, and what to do.
fn lost(path: &Path, error: Errno, patience: Duration) -> String {
    match error {
        Errno::AGAIN => format!(
            "no answer within {} s: the gateway is stopped or stuck",
            patience.as_secs_f64()
        ),
        Errno::CONNRESET | Errno::PIPE if nix::unistd::geteuid().is_root() => {
            "the gateway has hung up".into()
        }
        // What it does to those who may not, when the file's mode let them in.
        Errno::CONNRESET | Errno::PIPE => format!("the gateway has hung up: {}", not_allowed(path)),
        other => other.to_string(),
    }
}

/// Who may connect.
fn not_allowed(path: &Path) -> String {
    let group = std::fs::metadata(path)
        .ok()
        .map(|of| of.gid())
        .filter(|gid| *gid != 0);
    match group {
        None => "only root may connect; [control] group names a group that may too".into(),
        Some(gid) => {
            let name = nix::unistd::Group::from_gid(gid.into()).ok().flatten();
            let name = name.map_or_else(|| gid.to_string(), |group| group.name);
            format!("only root and the group {name} may connect")
        }
    }
}

#[cfg(test)]
mod tests;
