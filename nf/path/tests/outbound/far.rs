//! The other end of the tunnel.

use crate::bed::{Got, Sent};
use crate::peers::*;
use crate::support::TwinFragments;
use nf_path::buf::Buf;
use nf_path::burst::{Frames, MAX_BURST, Now, Outputs};
use nf_path::context::Context;
use nf_path::counters::Counters;
use nf_path::inbound::classify::Listeners;
use nf_path::inbound::{Inbound, Tuning};
use nf_path::tunnel::Tunnel;
use nf_path::twin::{HEADROOM, HeapBuf, SoftAead};
use nf_path::verdict::DropReason;
use nf_state::Lookahead;
use nf_wire::ether;
use std::sync::Arc;

/// The other side: the inbound path with the same keys exchanged.
pub struct Far {
    inbound: Inbound<HeapBuf, TwinFragments>,
    context: Context<SoftAead>,
}

impl Default for Far {
    fn default() -> Self {
        let mut listeners = Listeners::default();
        (1..=PEERS).for_each(|peer| assert!(listeners.add(remote(peer), 0)));
        let mut tunnel = Tunnel::new(INTERFACE);
        tunnel.peers = table(false);
        let counters = Arc::new(Counters::default());
        let tuning = Tuning {
            batch: true,
            lookahead: Lookahead::default(),
        };
        Far {
            inbound: Inbound::new(
                listeners,
                tuning,
                TwinFragments::new(Default::default()),
                counters.clone(),
            ),
            context: Context::new(vec![tunnel], SoftAead::new(), counters),
        }
    }
}

impl Far {
    /// Opens what was sent: peer and inner packet, in the order of delivery.
    pub fn open(&mut self, sent: &Sent) -> Vec<(u32, Vec<u8>)> {
        let mut opened = Vec::new();
        for burst in sent.nic.chunks(MAX_BURST) {
            let frame = |got: &Got| HeapBuf::sized(&got.frame, HEADROOM, HEADROOM + got.frame.len());
            let mut rx: Frames<HeapBuf> = burst.iter().map(frame).collect();
            let mut out = Outputs::new(1);
            self.inbound
                .process(&mut self.context, &mut rx, Now::default(), &mut out);
            assert!(out.host.is_empty(), "all are records");
            for frame in &out.tunnels[0] {
                let (header, inner) = frame.data().split_at(ether::HEADER_LEN);
                opened.push((
                    u32::from_be_bytes([0, header[9], header[10], header[11]]),
                    inner.to_vec(),
                ));
            }
        }
        assert_eq!(self.drops(), []);
        opened
    }

    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.context.counters.totals().nonzero_drops().collect()
    }

    pub fn keepalives(&self) -> u64 {
        self.context.counters.keepalives.get()
    }
}
