//! Finds DPDK, binds the allowlist below and compiles the shim with DPDK's own compiler flags.

use std::{env, path::PathBuf, process::Command};

/// What to install when DPDK is missing or of a version that was never tried.
const INSTALL: &str =
    "apt-get install libdpdk-dev dpdk-dev pkg-config (or point PKG_CONFIG_PATH at your own build)";

/// The functions in use.
const FUNCTIONS: &[&str] = &[
    "shim_.*",
    "rte_eal_(init|cleanup|has_hugepages|hotplug_add|hotplug_remove|iova_mode)",
    "rte_eal_(remote_launch|wait_lcore)",
    "rte_thread_(register|unregister)",
    "rte_strerror|rte_version",
    "rte_get_tsc_hz|rte_socket_id|rte_lcore_count|rte_lcore_to_cpu_id",
    "rte_openlog_stream|rte_log_set_global_level|rte_log_cur_msg_loglevel",
    "rte_mempool_(avail_count|in_use_count|free|lookup|walk|mem_iter)",
    "rte_pktmbuf_(pool_create|free_bulk)",
    "rte_ring_(create|free|lookup)",
    "rte_eth_from_ring|rte_eth_from_rings",
    "rte_vdev_(init|uninit)",
    "rte_eth_dev_(info_get|configure|start|stop|close|count_avail|get_port_by_name|get_name_by_port|set_mtu|get_mtu)",
    "rte_eth_dev_(adjust_nb_rx_tx_desc|socket_id|is_valid_port|set_link_up)",
    "rte_eth_(rx_queue_setup|tx_queue_setup|macaddr_get|promiscuous_enable|allmulticast_enable|stats_get|stats_reset)",
    "rte_eth_(link_get_nowait|find_next|dev_rss_hash_conf_get)",
    "rte_flow_isolate",
    "rte_ip_frag_(table_create|table_destroy|free_death_row|table_del_expired_entries)",
    "rte_ipv[46]_frag_reassemble_packet",
    "rte_ipv[46]_fragment_packet",
    "rte_telemetry_register_cmd|rte_tel_data_.*",
];

/// The constants in use: those that bindgen cannot evaluate have a `SHIM_` twin in shim.h.
const VARS: &[&str] = &[
    "SHIM_.*",
    "RTE_VER_.*",
    "RTE_PKTMBUF_HEADROOM",
    "RTE_MAX_LCORE",
    "RTE_ETHER_.*",
    "RTE_MBUF_DEFAULT_.*",
    "RTE_MEMPOOL_CACHE_MAX_SIZE",
    "RTE_ETH_NAME_MAX_LEN",
    "RTE_LOG_.*",
    "IP_FRAG_DEATH_ROW.*",
];

/// Types whose insides nobody here reads: among them all that are packed and aligned at once, which Rust cannot
/// spell (E0588).
const OPAQUE: &[&str] = &[
    "rte_l2tpv2_.*",
    "rte_mempool",
    "rte_mempool_.*",
    "rte_ring",
    "rte_device",
    "rte_ip_frag_tbl",
    "rte_ipv4_hdr",
    "rte_ipv6_hdr",
    "rte_ipv6_fragment_ext",
    "rte_flow_.*",
    "rte_tel_data",
    "rte_mbuf_.*",
    "rte_pktmbuf_pool_private",
];

fn main() {
    println!("cargo::rerun-if-changed=src/wrapper.h");
    println!("cargo::rerun-if-changed=src/shim.h");
    println!("cargo::rerun-if-changed=src/shim.c");
    if let Err(line) = build() {
        println!("cargo::error={line}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    pkg_config::Config::new()
        .range_version("22.11".."25.12")
        .probe("libdpdk")
        .map_err(|_| not_usable())?;
    // libdpdk.pc lists libraries, not drivers; rte_eth_from_ring is in a driver.
    println!("cargo::rustc-link-lib=dylib=rte_net_ring");
    let flags = cflags()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build with cargo")?);
    bind(&flags, &out.join("dpdk.rs"))?;
    let mut shim = cc::Build::new();
    shim.file("src/shim.c").include("src").warnings(true).opt_level(3);
    for flag in &flags {
        shim.flag(flag);
    }
    shim.try_compile("dpdk_shim").map_err(|e| match e.to_string() {
        text if text.starts_with("ToolNotFound") => "C compiler not found: apt-get install gcc".into(),
        _ => "the shim does not compile against this DPDK: the compiler's warnings above say where".into(),
    })
}

/// Why pkg-config gave no DPDK: none there, or of a version out of range.
fn not_usable() -> String {
    match pkg_config(&["--modversion", "libdpdk"]) {
        Ok(found) => format!("libdpdk {} found, 22.11 to 25.11 needed: {INSTALL}", found.trim()),
        Err(line) => line,
    }
}

fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let tool = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    match Command::new(tool).args(arguments).output() {
        Ok(out) if out.status.success() => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        _ => Err(format!("libdpdk 22.11 or later not found: {INSTALL}")),
    }
}

/// DPDK's compiler flags, whole: `-include rte_config.h` and `-march` decide the layout and the code of its
/// inline functions, and the `pkg-config` crate passes neither on.
fn cflags() -> Result<Vec<String>, String> {
    Ok(pkg_config(&["--cflags", "libdpdk"])?
        .split_whitespace()
        .map(String::from)
        .collect())
}

fn bind(flags: &[String], to: &std::path::Path) -> Result<(), String> {
    let mut b = bindgen::Builder::default()
        .header("src/wrapper.h")
        .clang_arg("-Isrc")
        .clang_args(flags)
        .blocklist_type("rte_mbuf")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_debug(false)
        .layout_tests(true)
        .generate_comments(false)
        .rust_edition(bindgen::RustEdition::Edition2024);
    for f in FUNCTIONS {
        b = b.allowlist_function(f);
    }
    for v in VARS {
        b = b.allowlist_var(v);
    }
    for t in OPAQUE {
        b = b.opaque_type(t);
    }
    // bindgen panics when it cannot load libclang.
    std::panic::set_hook(Box::new(|_| {}));
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| b.generate()));
    drop(std::panic::take_hook());
    match made {
        Err(_) => Err("libclang, which bindgen needs, not found: apt-get install libclang-dev".into()),
        Ok(Err(e)) => Err(format!(
            "bindgen refuses DPDK's headers: {}",
            e.to_string().lines().next().unwrap_or("")
        )),
        Ok(Ok(bindings)) => bindings
            .write_to_file(to)
            .map_err(|e| format!("cannot write {}: {e}", to.display())),
    }
}
