//! Ethernet ports (`rte_ethdev`): finding or making one, configuring and starting it, its numbers.

mod capabilities;
mod inner;
mod start;

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;

pub use capabilities::Capabilities;
pub(crate) use inner::Inner;
pub use start::{PortConfig, Want};

use inner::Started;

use crate::error::{Error, errno_text};
use crate::ring::Ring;
use crate::{Eal, Mempool, RxQueue, TxQueue, logging};

/// A port. There is one `Port` per DPDK port; the port is stopped and closed, and a vdev made here removed, when it
/// and the queues handed out are gone.
#[derive(Debug)]
pub struct Port(Arc<Inner>);

/// A port's counters since it was started (`rte_eth_stats_get`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub ipackets: u64,
    /// Packets sent.
    pub opackets: u64,
    /// Bytes received.
    pub ibytes: u64,
    /// Bytes sent.
    pub obytes: u64,
    /// Packets that the port dropped because the receive queue was full.
    pub imissed: u64,
    /// Packets received with an error.
    pub ierrors: u64,
    /// Packets that could not be sent.
    pub oerrors: u64,
    /// Times that no buffer could be had for a received packet.
    pub rx_nombuf: u64,
}

impl Port {
    /// The port of that name: a PCI address, or a vdev's name from the EAL arguments.
    pub fn by_name(eal: &Eal, name: &str) -> Result<Port, Error> {
        Port::find(eal, name, None, None)
    }

    /// Makes a virtual device (`rte_eal_hotplug_add` on the vdev bus) and takes its port. `name` begins with the driver's
    /// name (net_null, net_tap, ...), `args` are its device arguments.
    pub fn create_vdev(eal: &Eal, name: &str, args: &str) -> Result<Port, Error> {
        let fail = |reason: String| Error::Vdev {
            name: name.into(),
            args: args.into(),
            reason,
        };
        let c_name = CString::new(name).map_err(|_| fail("its name holds a NUL byte".into()))?;
        let c_args = CString::new(args).map_err(|_| fail("its arguments hold a NUL byte".into()))?;
        logging::mark();
        // SAFETY: three C strings; the EAL is up.
        let code =
            unsafe { dpdk_sys::rte_eal_hotplug_add(c"vdev".as_ptr(), c_name.as_ptr(), c_args.as_ptr()) };
        if code != 0 {
            // -1 is what drivers return when they refuse, not EPERM; DPDK's own "no driver takes it" is EFAULT.
            let why = match -code {
                1 => "its driver refused".into(),
                libc::EFAULT | libc::ENOENT | libc::ENODEV => "no such driver".into(),
                _ => errno_text(code),
            };
            return Err(fail(format!("{why} ({})", logging::first_line())));
        }
        Port::find(eal, name, Some(c_name.clone()), None).inspect_err(|_| {
            // SAFETY: two C strings; the device was made above, and nothing uses it.
            unsafe { dpdk_sys::rte_eal_hotplug_remove(c"vdev".as_ptr(), c_name.as_ptr()) };
        })
    }

    /// The port that `rte_eth_from_ring` made.
    pub(crate) fn of_ring(eal: &Eal, id: u16, ring: Arc<Ring>) -> Result<Port, Error> {
        let mut name = [0 as c_char; dpdk_sys::RTE_ETH_NAME_MAX_LEN as usize];
        // SAFETY: the buffer has the size that DPDK asks for.
        let code = unsafe { dpdk_sys::rte_eth_dev_get_name_by_port(id, name.as_mut_ptr()) };
        if code != 0 {
            return Err(Error::NoPort(format!("number {id}")));
        }
        // SAFETY: DPDK wrote a NUL-terminated name.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_owned();
        Port::find(eal, &name.to_string_lossy(), Some(name.clone()), Some(ring))
    }

    fn find(eal: &Eal, name: &str, vdev: Option<CString>, ring: Option<Arc<Ring>>) -> Result<Port, Error> {
        let c_name = CString::new(name).map_err(|_| Error::NoPort(name.into()))?;
        let mut id = 0;
        // SAFETY: a C string and a place for the number.
        if unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &mut id) } != 0 {
            return Err(Error::NoPort(name.into()));
        }
        Inner::claim(eal, id, name, vdev, ring).map(|inner| Port(Arc::new(inner)))
    }

    /// Configures and starts the port (`rte_eth_dev_configure` to `rte_eth_dev_start`), once. RSS, checksum offload and
    /// scattered receive are asked for only where the port has them, queues and descriptors only as many as it has.
    /// Returns what is off and was wanted, a line each for the log.
    pub fn start(&self, config: &PortConfig, pool: &Arc<Mempool>) -> Result<Vec<String>, Error> {
        let mut pools = self.0.control.lock().unwrap_or_else(|e| e.into_inner());
        if self.0.started.get().is_some() {
            return Err(self.0.state("is started already"));
        }
        pools.push(pool.clone());
        let (enabled, off) = start::start(&self.0, config, pool)?;
        let _ = self.0.started.set(Started::with(enabled));
        Ok(off)
    }

    /// Receive queue `index`, once.
    pub fn rx_queue(&self, index: u16) -> Result<RxQueue, Error> {
        self.0.take("rx", index, &self.0.started()?.rx_taken)?;
        Ok(RxQueue {
            port: self.0.clone(),
            queue: index,
        })
    }

    /// Transmit queue `index`, once.
    pub fn tx_queue(&self, index: u16) -> Result<TxQueue, Error> {
        self.0.take("tx", index, &self.0.started()?.tx_taken)?;
        Ok(TxQueue {
            port: self.0.clone(),
            queue: index,
        })
    }

    /// The DPDK port number, which received buffers carry.
    pub fn id(&self) -> u16 {
        self.0.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its driver's name.
    pub fn driver(&self) -> Result<String, Error> {
        let name = self.0.info()?.driver_name;
        if name.is_null() {
            return Ok(String::new());
        }
        // SAFETY: a driver's name is a static C string.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// Its Ethernet address.
    pub fn mac(&self) -> Result<[u8; 6], Error> {
        let mut mac = dpdk_sys::rte_ether_addr::default();
        // SAFETY: a place for the address; the number is a port's.
        self.0.check("rte_eth_macaddr_get", unsafe {
            dpdk_sys::rte_eth_macaddr_get(self.0.id, &mut mac)
        })?;
        Ok(mac.addr_bytes)
    }

    /// Bytes of the largest layer 3 packet that it takes.
    pub fn mtu(&self) -> Result<u16, Error> {
        let mut mtu = 0;
        // SAFETY: a place for the number.
        self.0.check("rte_eth_dev_get_mtu", unsafe {
            dpdk_sys::rte_eth_dev_get_mtu(self.0.id, &mut mtu)
        })?;
        Ok(mtu)
    }

    /// Sets the MTU. net_tap changes the kernel interface's with it; some drivers refuse while started (EBUSY).
    pub fn set_mtu(&self, mtu: u16) -> Result<(), Error> {
        let _one = self.0.control.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: no pointer involved.
        self.0.check("rte_eth_dev_set_mtu", unsafe {
            dpdk_sys::rte_eth_dev_set_mtu(self.0.id, mtu)
        })
    }

    /// Its counters.
    pub fn stats(&self) -> Result<PortStats, Error> {
        let mut s = dpdk_sys::rte_eth_stats::default();
        // SAFETY: a place for the counters.
        self.0.check("rte_eth_stats_get", unsafe {
            dpdk_sys::rte_eth_stats_get(self.0.id, &mut s)
        })?;
        Ok(PortStats {
            ipackets: s.ipackets,
            opackets: s.opackets,
            ibytes: s.ibytes,
            obytes: s.obytes,
            imissed: s.imissed,
            ierrors: s.ierrors,
            oerrors: s.oerrors,
            rx_nombuf: s.rx_nombuf,
        })
    }

    /// What the device can do.
    pub fn capabilities(&self) -> Result<Capabilities, Error> {
        Ok(Capabilities::of(&self.0.info()?))
    }

    /// What is in use since [`Port::start`], queue counts included.
    pub fn enabled(&self) -> Result<Capabilities, Error> {
        Ok(self.0.started()?.enabled)
    }
}
