//! Shutting the kernel out of what an interface receives.
//!
//! A port that reads the interface by packet(7) leaves each frame with the kernel too, which would answer it a second
//! time. Packet sockets see a frame before traffic control does, so one classifier that drops everything at ingress
//! keeps the kernel out and leaves the port its frames: `tc qdisc add dev X clsact; tc filter add dev X ingress bpf da
//! bytecode '1,6 0 0 2'` (tc-bpf(8)).

use crate::netlink::unless;
use crate::{Error, Netlink};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcHeader, TcMessage, TcOption,
};

/// The handle of the classifier, by which it is known again: "OVPN" in ASCII.
const OURS: u32 = 0x4f56_504e;
/// The queueing discipline at an interface's ingress: clsact, or the older ingress.
const QDISC: TcHandle = TcHandle {
    major: 0xffff,
    minor: 0,
};
/// Where classifiers for received frames hang, and those for sent ones (`TC_H_MIN_INGRESS`, `TC_H_MIN_EGRESS`).
const RECEIVED: TcHandle = TcHandle {
    major: 0xffff,
    minor: TcHandle::MIN_INGRESS,
};
const SENT: TcHandle = TcHandle {
    major: 0xffff,
    minor: TcHandle::MIN_EGRESS,
};
/// The priority of the classifier: of those that hang there, the least is asked first.
const FIRST: u16 = 1;
/// Number of instructions of a classic BPF program, and the instructions (linux/pkt_cls.h).
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;
/// `ETH_P_ALL`: classifies frames of every EtherType.
const EVERY_PROTOCOL: u16 = 3;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 6;
/// Drops the frame (linux/pkt_cls.h).
const TC_ACT_SHOT: u32 = 2;

impl Netlink {
    /// Whether the interface has a queueing discipline at ingress, by which classifiers can be added.
    ///
    /// # Errors
    /// What the kernel refuses the dump with.
    pub fn has_ingress_qdisc(&mut self, index: u32) -> Result<bool, Error> {
        let what = format!("interface {index}: queueing disciplines");
        let all = self.dump(
            &what,
            &RouteNetlinkMessage::GetQueueDiscipline(about(index, TcHandle::UNSPEC)),
        )?;
        Ok(all.iter().any(|message| match message {
            RouteNetlinkMessage::NewQueueDiscipline(qdisc) => {
                qdisc.header.index == signed(index) && qdisc.header.parent == TcHandle::INGRESS
            }
            _ => false,
        }))
    }

    /// Whether the kernel is shut out of what the interface receives, by [`shut_ingress`](Netlink::shut_ingress).
    ///
    /// # Errors
    /// What the kernel refuses the dump with.
    pub fn ingress_is_shut(&mut self, index: u32) -> Result<bool, Error> {
        Ok(self
            .filters(index, RECEIVED)?
            .iter()
            .any(|filter| u32::from(filter.handle) == OURS))
    }

    /// Shuts the kernel out of all that the interface receives, ahead of classifiers that are there. Nothing changes if
    /// it is already. The interface keeps it until [`open_ingress`](Netlink::open_ingress), also beyond this process.
    ///
    /// # Errors
    /// `ENODEV` if it is gone. `EOPNOTSUPP` or `ENOENT` if this kernel has no clsact or no bpf classifier: then the
    /// discipline is taken back. [`Error::Invalid`] if someone else's classifier has the first place.
    pub fn shut_ingress(&mut self, index: u32) -> Result<(), Error> {
        let had = self.has_ingress_qdisc(index)?;
        let there = if had {
            self.filters(index, RECEIVED)?
        } else {
            Vec::new()
        };
        if there.iter().any(|filter| u32::from(filter.handle) == OURS) {
            return Ok(());
        }
        let what = format!("interface {index}: add classifier bpf at ingress");
        if there.iter().any(|filter| filter.info >> 16 == u32::from(FIRST)) {
            let reason = format!("there is another one of priority {FIRST}, which would be asked first");
            return Err(Error::Invalid { what, reason });
        }
        if !had {
            let what = format!("interface {index}: add queueing discipline clsact");
            let mut message = about(index, TcHandle::CLSACT);
            message.header.handle = QDISC;
            message.attributes.push(TcAttribute::Kind("clsact".to_owned()));
            let message = RouteNetlinkMessage::NewQueueDiscipline(message);
            self.request(&what, message, NLM_F_CREATE | NLM_F_EXCL)?;
        }
        let message = RouteNetlinkMessage::NewTrafficFilter(drop_everything(index));
        match self.request(&what, message, NLM_F_CREATE | NLM_F_EXCL) {
            Err(e) => {
                if !had {
                    // The first error is the one to tell.
                    let _ = self.remove_qdisc(index);
                }
                Err(e)
            }
            Ok(_) => Ok(()),
        }
    }

    /// Lets the kernel have again what the interface receives. With `qdisc`, also removes the queueing discipline, unless
    /// someone else's classifiers hang there. Nothing there to undo is no error.
    ///
    /// # Errors
    /// What the kernel refuses it with.
    pub fn open_ingress(&mut self, index: u32, qdisc: bool) -> Result<(), Error> {
        let what = format!("interface {index}: remove classifier bpf at ingress");
        let absent = [libc::ENOENT, libc::EINVAL, libc::ENODEV];
        for filter in self.filters(index, RECEIVED)? {
            if u32::from(filter.handle) == OURS {
                let mut message = about(index, RECEIVED);
                message.header = filter;
                message
                    .attributes
                    .push(TcAttribute::Kind(TcFilterBpf::KIND.to_owned()));
                self.request(&what, RouteNetlinkMessage::DelTrafficFilter(message), 0)?;
            }
        }
        if qdisc && self.filters(index, RECEIVED)?.is_empty() && self.filters(index, SENT)?.is_empty() {
            return unless(self.remove_qdisc(index), &absent, ());
        }
        Ok(())
    }

    fn remove_qdisc(&mut self, index: u32) -> Result<(), Error> {
        let what = format!("interface {index}: remove queueing discipline clsact");
        let mut message = about(index, TcHandle::CLSACT);
        message.header.handle = QDISC;
        message.attributes.push(TcAttribute::Kind("clsact".to_owned()));
        self.request(&what, RouteNetlinkMessage::DelQueueDiscipline(message), 0)
            .map(|_| ())
    }

    /// The classifiers that hang at `parent`, by their headers. None if the interface has no such thing, or is gone.
    fn filters(&mut self, index: u32, parent: TcHandle) -> Result<Vec<TcHeader>, Error> {
        let what = format!("interface {index}: classifiers");
        let dump = self.dump(
            &what,
            &RouteNetlinkMessage::GetTrafficFilter(about(index, parent)),
        );
        let all = unless(dump, &[libc::ENODEV, libc::EINVAL, libc::ENOENT], vec![])?;
        let filters = all.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewTrafficFilter(filter) => Some(filter.header),
            _ => None,
        });
        // With handle 0 the kernel tells of the priority that filters have in common.
        Ok(filters.filter(|header| u32::from(header.handle) != 0).collect())
    }
}

fn signed(index: u32) -> i32 {
    index.try_into().unwrap_or(0)
}

fn about(index: u32, parent: TcHandle) -> TcMessage {
    let mut message = TcMessage::with_index(signed(index));
    message.header.parent = parent;
    message
}

/// One instruction of classic BPF: struct sock_filter of linux/filter.h.
fn instruction(code: u16, k: u32) -> Vec<u8> {
    [&code.to_ne_bytes()[..], &[0, 0], &k.to_ne_bytes()].concat()
}

/// The classifier that drops all received frames, and does it itself (direct action).
fn drop_everything(index: u32) -> TcMessage {
    let mut message = about(index, RECEIVED);
    message.header.handle = OURS.into();
    message.header.info = u32::from(FIRST) << 16 | u32::from(EVERY_PROTOCOL.to_be());
    let program = instruction(RETURN, TC_ACT_SHOT);
    let raw = |kind, value| TcOption::Bpf(TcFilterBpfOption::Other(DefaultNla::new(kind, value)));
    message.attributes = vec![
        TcAttribute::Kind(TcFilterBpf::KIND.to_owned()),
        TcAttribute::Options(vec![
            raw(TCA_BPF_OPS_LEN, 1u16.to_ne_bytes().to_vec()),
            raw(TCA_BPF_OPS, program),
            TcOption::Bpf(TcFilterBpfOption::Flags(TcBpfFlags::DirectAction)),
        ]),
    ];
    message
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;

    /// What `tc filter add dev X ingress bpf da bytecode '1,6 0 0 2'` sends, by the layouts of rtnetlink(7) and
    /// linux/pkt_cls.h, but for the handle and the priority.
    #[test]
    fn as_tc_sends_it() {
        let message = drop_everything(7);
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        let expected = [
            &[0, 0, 0, 0, 7, 0, 0, 0][..],          // family, interface
            b"NPVO",                                // handle
            &[0xf2, 0xff, 0xff, 0xff, 0, 3, 1, 0],  // parent, EtherType and priority
            &[8, 0, 1, 0, b'b', b'p', b'f', 0],     // TCA_KIND
            &[32, 0, 2, 0],                         // TCA_OPTIONS
            &[6, 0, 4, 0, 1, 0, 0, 0],              // TCA_BPF_OPS_LEN
            &[12, 0, 5, 0, 6, 0, 0, 0, 2, 0, 0, 0], // TCA_BPF_OPS
            &[8, 0, 8, 0, 1, 0, 0, 0],              // TCA_BPF_FLAGS
        ];
        assert_eq!(bytes, expected.concat());
    }
}
