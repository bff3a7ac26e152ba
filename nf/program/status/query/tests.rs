use super::*;
use rustix::net::{accept, bind, listen};
use std::thread::JoinHandle;

/// A gateway that answers each packet that it gets by what `answer` makes of it; an empty list: it hangs up. Gives the
/// packets.
fn fake(
    path: &Path,
    mut answer: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static,
) -> JoinHandle<Vec<Vec<u8>>> {
    let listener = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 4).unwrap();
    std::thread::spawn(move || {
        let socket = accept(&listener).unwrap();
        let (mut buffer, mut heard) = (vec![0; MAX_PACKET], Vec::new());
        while let Ok(Some(packet)) = hear(&socket, &mut buffer) {
            heard.push(packet.to_vec());
            let answers = answer(packet);
            if answers.is_empty() {
                break;
            }
            for packet in answers {
                send(&socket, &packet, SendFlags::NOSIGNAL).unwrap();
            }
        }
        heard
    })
}

fn message(kind: u16, flags: u16, seq: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend(((HEADER_LEN + payload.len()) as u32).to_ne_bytes());
    packet.extend(kind.to_ne_bytes());
    packet.extend(flags.to_ne_bytes());
    packet.extend(seq.to_ne_bytes());
    packet.extend(0u32.to_ne_bytes());
    packet.extend(payload);
    packet
}

/// NLMSG_ERROR for a request, with a reason in words.
fn error(request: &[u8], errno: i32, reason: &str) -> Vec<u8> {
    let mut payload = (-errno).to_ne_bytes().to_vec();
    payload.extend(&request[..HEADER_LEN]);
    if !reason.is_empty() {
        payload.extend((4 + reason.len() as u16 + 1).to_ne_bytes());
        payload.extend(REASON.to_ne_bytes());
        payload.extend(reason.bytes().chain([0]));
    }
    let flags = if reason.is_empty() {
        0x100
    } else {
        0x100 | ACK_TLVS
    };
    message(ERROR, flags, number(request, 8).unwrap(), &payload)
}

fn kind(packet: &[u8]) -> u16 {
    half(packet, 4).unwrap()
}

/// What the gateway's answers to STATUS lead to, HELLO being acknowledged.
fn asked(answer: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Result<Vec<u8>, Failure> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.sock");
    let gateway = fake(&path, move |packet| match kind(packet) {
        HELLO => vec![error(packet, 0, "")],
        _ => answer(packet),
    });
    let answer = ask(&path, Duration::from_millis(200));
    gateway.join().unwrap();
    answer
}

fn why(result: Result<Vec<u8>, Failure>) -> String {
    match result {
        Err(Failure::Machine(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_document_in_pieces_is_put_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.sock");
    let document: String = (0..40_000).map(|n| format!("{n},")).collect();
    let pieces: Vec<Vec<u8>> = document.as_bytes().chunks(50_000).map(<[u8]>::to_vec).collect();
    assert!(pieces.len() > 2);
    let gateway = fake(&path, move |packet| match kind(packet) {
        HELLO => vec![error(packet, 0, "")],
        _ => {
            // A notification in between is none of ours.
            let mut answers = vec![message(0x25, 0, 0, &[1; 40])];
            answers.extend(pieces.iter().map(|piece| message(STATUS, 2, 2, piece)));
            answers.push(message(DONE, 2, 2, &[0; 4]));
            answers
        }
    });
    assert_eq!(ask(&path, PATIENCE).unwrap(), document.as_bytes());
    let heard = gateway.join().unwrap();
    assert_eq!(heard.iter().map(|p| kind(p)).collect::<Vec<_>>(), [HELLO, STATUS]);
    let words: Vec<u32> = (16..24)
        .step_by(4)
        .map(|at| number(&heard[0], at).unwrap())
        .collect();
    assert_eq!((heard[0].len(), words), (24, vec![VERSION, GENERIC]));
    assert_eq!(heard[1].len(), HEADER_LEN);
}

#[test]
fn a_gateway_that_is_silent_is_not_waited_for() {
    let answer = asked(|packet| vec![message(0x25, 0, 0, packet)]);
    assert!(why(answer).ends_with("gw0.sock: no answer within 0.2 s: the gateway is stopped or stuck"));
}

#[test]
fn a_gateway_that_hangs_up_is_told_of() {
    assert!(why(asked(|_| Vec::new())).contains("gw0.sock: the gateway has hung up"));
    let cut = asked(|packet| vec![message(STATUS, 2, 2, b"{\"na"), packet[..3].to_vec()]);
    assert!(why(cut).contains("no netlink message"));
}

#[test]
fn refusals_come_with_the_gateway_s_words() {
    let answer = asked(|packet| vec![error(packet, 95, "no status today")]);
    let why_not = why(answer);
    assert!(
        why_not.contains("no report: ") && why_not.ends_with(": no status today"),
        "{why_not}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.sock");
    let gateway = fake(&path, |packet| vec![error(packet, 93, "version 1 is too old")]);
    let why_not = why(ask(&path, PATIENCE));
    assert!(why_not.contains("the gateway refuses: "), "{why_not}");
    assert!(why_not.ends_with("version 1 is too old"), "{why_not}");
    gateway.join().unwrap();
}

#[test]
fn where_no_gateway_listens_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.sock");
    let missing = why(ask(&path, PATIENCE));
    assert!(
        missing.contains("gw0.sock: no gateway runs: there is no such socket"),
        "{missing}"
    );
    // Its gateway was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let stale = why(ask(&path, PATIENCE));
    assert!(stale.contains("no gateway runs: nobody listens"), "{stale}");
    let other = folder.path().join("other.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&other).unwrap();
    let wrong = why(ask(&other, PATIENCE));
    assert!(wrong.contains("not the control socket of a gateway"), "{wrong}");
    let long = folder.path().join("x".repeat(120));
    assert!(why(ask(&long, PATIENCE)).contains("longer than"));
}

#[test]
fn only_one_socket_needs_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let none = find(&folder.path().join("nowhere"));
    assert!(matches!(none, Err(Failure::Machine(why)) if why.starts_with("no gateway runs")));
    std::fs::write(folder.path().join("gw0.undo"), "").unwrap();
    assert!(matches!(find(folder.path()), Err(Failure::Machine(_))));
    let socket = |name: &str| folder.path().join(name);
    std::fs::write(socket("gw1.sock"), "").unwrap();
    assert_eq!(find(folder.path()), Ok(socket("gw1.sock")));
    std::fs::write(socket("gw0.sock"), "").unwrap();
    let names = format!(
        "{}, {}",
        socket("gw0.sock").display(),
        socket("gw1.sock").display()
    );
    assert!(matches!(find(folder.path()), Err(Failure::Usage(why)) if why.ends_with(&names)));
}

#[test]
fn who_may_connect_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.sock");
    let nobody = cannot_connect(&path, Errno::ACCESS);
    assert_eq!(
        nobody,
        "only root may connect; [control] group names a group that may too"
    );
}
