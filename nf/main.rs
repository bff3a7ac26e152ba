//! `ovpn-dpdk`: OpenVPN's data channel in user space, on DPDK. The composition root:
//! arguments, configuration, EAL, ports, workers, drain.
#![forbid(unsafe_code)]

mod program;

fn main() -> std::process::ExitCode {
    program::main()
}
