//! DPDK's log arrives in `tracing`, line by line, with its level.

mod common;

use std::fmt::Debug;
use std::sync::Mutex;

use lcore::Port;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

struct Collect;

impl Subscriber for Collect {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        if event.metadata().target() == "dpdk" {
            LINES
                .lock()
                .expect("no panic")
                .push((*event.metadata().level(), message.0));
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn dpdks_log_arrives_with_its_level() {
    tracing::subscriber::set_global_default(Collect).expect("the first one");
    let eal = common::eal("logging");
    assert!(Port::create_vdev(&eal, "net_af_packet0", "iface=nosuch0").is_err());
    let lines = LINES.lock().expect("no panic").clone();
    let has = |level, text: &str| lines.iter().any(|(l, line)| *l == level && line.contains(text));
    assert!(has(Level::INFO, "EAL: Detected CPU lcores"), "{lines:?}");
    assert!(
        has(Level::ERROR, "net_af_packet0: ioctl failed (SIOCGIFINDEX)"),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .all(|(_, line)| !line.contains('\n') && !line.is_empty()),
        "{lines:?}"
    );
}
