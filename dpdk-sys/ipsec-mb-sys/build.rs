//! Finds IPsec-MB by its header and library (it has no pkg-config file) and binds the functions in use.

use std::path::{Path, PathBuf};
use std::{env, fs, io::ErrorKind};

const HEADER: &str = "intel-ipsec-mb.h";
/// `IMB_VERSION(1, 3, 0)`, the first version that was tried.
const OLDEST: u32 = 0x1_0300;

fn main() {
    println!("cargo::rerun-if-env-changed=IPSEC_MB_DIR");
    if let Err(line) = build() {
        println!("cargo::error={line}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let missing = "IPsec-MB 1.3 or later not found: apt-get install libipsec-mb-dev (or set IPSEC_MB_DIR to where it \
                   is installed)";
    let (header, library) = find().ok_or(missing)?;
    println!("cargo::rerun-if-changed={}", header.display());
    let version = version(&header)?;
    if version < OLDEST {
        let (a, b, c) = (version >> 16, version >> 8 & 0xff, version & 0xff);
        return Err(format!(
            "IPsec-MB {a}.{b}.{c} at {} is too old; {missing}",
            header.display()
        ));
    }
    println!("cargo::rustc-link-search=native={}", library.display());
    println!("cargo::rustc-link-lib=dylib=IPSec_MB");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build with cargo")?);
    bind(&header, &out.join("ipsec_mb.rs"))
}

/// The header, and the folder that holds the library.
fn find() -> Option<(PathBuf, PathBuf)> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let bases = match env::var_os("IPSEC_MB_DIR") {
        Some(dir) => vec![PathBuf::from(dir)],
        None => vec!["/usr/local".into(), "/usr".into()],
    };
    for base in bases {
        let header = [
            base.join("include").join(HEADER),
            base.join(HEADER),
            base.join("lib").join(HEADER),
        ]
        .into_iter()
        .find(|p| p.is_file());
        let library = [
            "lib64".to_string(),
            format!("lib/{arch}-linux-gnu"),
            "lib".into(),
            String::new(),
        ]
        .into_iter()
        .map(|d| base.join(d))
        .find(|d| d.join("libIPSec_MB.so").exists());
        if let (Some(header), Some(library)) = (header, library) {
            return Some((header, library));
        }
    }
    None
}

/// `IMB_VERSION_NUM` as the header states it.
fn version(header: &Path) -> Result<u32, String> {
    let text = fs::read_to_string(header).map_err(|e| match e.kind() {
        ErrorKind::PermissionDenied => format!("{} cannot be read: permission denied", header.display()),
        _ => format!("{} cannot be read: {e}", header.display()),
    })?;
    text.lines()
        .find_map(|l| l.trim().strip_prefix("#define IMB_VERSION_NUM"))
        .and_then(|n| u32::from_str_radix(n.trim().trim_start_matches("0x"), 16).ok())
        .ok_or_else(|| format!("{} states no IMB_VERSION_NUM", header.display()))
}

fn bind(header: &Path, to: &Path) -> Result<(), String> {
    let b = bindgen::Builder::default()
        .header(header.to_string_lossy())
        .allowlist_function("alloc_mb_mgr|free_mb_mgr|init_mb_mgr_auto")
        .allowlist_function("imb_get_errno|imb_get_strerror|imb_get_version")
        .allowlist_type(
            "IMB_MGR|IMB_ARCH|IMB_ERR|gcm_key_data|gcm_context_data|chacha20_poly1305_context_data",
        )
        .allowlist_var("IMB_FEATURE_.*|IMB_FLAG_.*|IMB_VERSION_.*")
        // What the manager schedules jobs with; only its direct calls are used here.
        .opaque_type("MB_MGR_.*|IMB_JOB|IMB_SGL_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_debug(false)
        .generate_comments(false)
        .rust_edition(bindgen::RustEdition::Edition2024);
    // bindgen panics when it cannot load libclang.
    std::panic::set_hook(Box::new(|_| {}));
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| b.generate()));
    drop(std::panic::take_hook());
    match made {
        Err(_) => Err("libclang, which bindgen needs, not found: apt-get install libclang-dev".into()),
        Ok(Err(e)) => Err(format!(
            "bindgen refuses {HEADER}: {}",
            e.to_string().lines().next().unwrap_or("")
        )),
        Ok(Ok(bindings)) => bindings
            .write_to_file(to)
            .map_err(|e| format!("cannot write {}: {e}", to.display())),
    }
}
