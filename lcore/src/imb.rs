//! Intel's Multi-Buffer Crypto for IPsec library (IPsec-MB): the AEADs, by its direct calls.

mod cpu;
mod key;
mod self_test;

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use ipsec_mb_sys as imb;
use nf_path::aead::Aead;
use nf_wire::record::{AAD_LEN, NONCE_LEN, TAG_LEN};
use zeroize::Zeroize;

pub use cpu::check_cpu;
pub use key::Key;
pub use self_test::known_answer;

use crate::Error;
use key::Schedule;

/// `IMB_VERSION(1, 3, 0)`.
const OLDEST: u32 = 0x1_0300;
type GcmCall = unsafe extern "C" fn(
    *const imb::gcm_key_data,
    *mut imb::gcm_context_data,
    *mut u8,
    *const u8,
    u64,
    *const u8,
    *const u8,
    u64,
    *mut u8,
    u64,
);
type GcmExpand = unsafe extern "C" fn(*const std::ffi::c_void, *mut imb::gcm_key_data);

/// The manager's direct calls for one AES key size.
#[derive(Clone, Copy)]
struct Gcm {
    open: GcmCall,
    seal: GcmCall,
    expand: GcmExpand,
}

/// What a call leaves behind of a record: hash state and key stream.
#[repr(C, align(64))]
struct Scratch {
    gcm: MaybeUninit<imb::gcm_context_data>,
    chacha: MaybeUninit<imb::chacha20_poly1305_context_data>,
}

/// A manager of IPsec-MB (`IMB_MGR`): one per lcore. It can neither move to another thread nor be shared.
///
/// ```compile_fail,E0277
/// fn moves<T: Send>() {}
/// moves::<lcore::imb::Imb>();
/// ```
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<lcore::imb::Imb>();
/// ```
pub struct Imb {
    manager: NonNull<imb::IMB_MGR>,
    /// AES-128, -192, -256, in this order.
    gcm: [Gcm; 3],
    chacha_init: unsafe extern "C" fn(
        *const std::ffi::c_void,
        *mut imb::chacha20_poly1305_context_data,
        *const std::ffi::c_void,
        *const std::ffi::c_void,
        u64,
    ),
    chacha_open: ChaChaUpdate,
    chacha_seal: ChaChaUpdate,
    chacha_finish: unsafe extern "C" fn(*mut imb::chacha20_poly1305_context_data, *mut std::ffi::c_void, u64),
    scratch: Box<Scratch>,
    arch: &'static str,
    _one_thread: PhantomData<*mut ()>,
}

type ChaChaUpdate = unsafe extern "C" fn(
    *const std::ffi::c_void,
    *mut imb::chacha20_poly1305_context_data,
    *mut std::ffi::c_void,
    *const std::ffi::c_void,
    u64,
);

/// A manager that is freed when making an [`Imb`] of it fails.
struct Manager(NonNull<imb::IMB_MGR>);

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: alloc_mb_mgr made it, and it is freed once.
        unsafe { imb::free_mb_mgr(self.0.as_ptr()) };
    }
}

impl Imb {
    /// Makes a manager with the best implementation that the CPU has (`alloc_mb_mgr`, `init_mb_mgr_auto`). Refuses an
    /// IPsec-MB older than 1.3.0 and a CPU without AES-NI, on which the manager's calls would crash.
    pub fn new() -> Result<Imb, Error> {
        // SAFETY: no precondition.
        let version = unsafe { imb::imb_get_version() };
        if version < OLDEST {
            let found = format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
            return Err(Error::ImbVersion { found });
        }
        // SAFETY: no precondition; flags 0 let it choose.
        let manager = NonNull::new(unsafe { imb::alloc_mb_mgr(0) });
        let manager = Manager(manager.ok_or_else(|| Error::Imb("no memory for a manager".into()))?);
        let mut arch = imb::IMB_ARCH_NONE;
        // SAFETY: the manager was made above; a place for the answer.
        unsafe { imb::init_mb_mgr_auto(manager.0.as_ptr(), &mut arch) };
        // SAFETY: the manager is initialised as far as it could be; nobody changes it meanwhile.
        let m = unsafe { manager.0.as_ref() };
        check_cpu(m.features).map_err(Error::Cpu)?;
        // SAFETY: as above.
        let code = unsafe { imb::imb_get_errno(manager.0.as_ptr()) };
        if code != 0 || arch == imb::IMB_ARCH_NONE {
            // SAFETY: it returns a static C string for any number.
            let why = unsafe { CStr::from_ptr(imb::imb_get_strerror(code)) };
            return Err(Error::Imb(format!(
                "no implementation for this CPU: {}",
                why.to_string_lossy()
            )));
        }
        Imb::with_calls(manager, arch_name(arch))
            .ok_or_else(|| Error::Imb("the manager lacks an AEAD call".into()))
    }

    fn with_calls(manager: Manager, arch: &'static str) -> Option<Imb> {
        // SAFETY: the manager is initialised; nobody changes it meanwhile.
        let m = unsafe { manager.0.as_ref() };
        let gcm = [
            Gcm {
                open: m.gcm128_dec?,
                seal: m.gcm128_enc?,
                expand: m.gcm128_pre?,
            },
            Gcm {
                open: m.gcm192_dec?,
                seal: m.gcm192_enc?,
                expand: m.gcm192_pre?,
            },
            Gcm {
                open: m.gcm256_dec?,
                seal: m.gcm256_enc?,
                expand: m.gcm256_pre?,
            },
        ];
        let (chacha_init, chacha_finish) = (m.chacha20_poly1305_init?, m.chacha20_poly1305_finalize?);
        let (chacha_open, chacha_seal) = (m.chacha20_poly1305_dec_update?, m.chacha20_poly1305_enc_update?);
        let scratch = Box::new(Scratch {
            gcm: MaybeUninit::zeroed(),
            chacha: MaybeUninit::zeroed(),
        });
        let pointer = manager.0;
        std::mem::forget(manager);
        Some(Imb {
            manager: pointer,
            gcm,
            chacha_init,
            chacha_open,
            chacha_seal,
            chacha_finish,
            scratch,
            arch,
            _one_thread: PhantomData,
        })
    }

    /// The implementation in use: "SSE", "AVX", "AVX2" or "AVX512".
    pub fn arch(&self) -> &'static str {
        self.arch
    }

    #[inline(always)]
    fn gcm_call(
        &mut self,
        call: GcmCall,
        key: &imb::gcm_key_data,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        let bytes = text.as_mut_ptr();
        // SAFETY: the call reads the key, nonce and aad of the lengths given, writes the scratch context and the tag, and
        // reads and writes `text` in place, which IPsec-MB allows when source and destination are equal.
        unsafe {
            call(
                key,
                self.scratch.gcm.as_mut_ptr(),
                bytes,
                bytes,
                text.len() as u64,
                nonce.as_ptr(),
                aad.as_ptr(),
                AAD_LEN as u64,
                tag.as_mut_ptr(),
                TAG_LEN as u64,
            );
        }
        tag
    }

    #[inline(always)]
    fn chacha_call(
        &mut self,
        update: ChaChaUpdate,
        key: &[u8; 32],
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        let (context, key) = (self.scratch.chacha.as_mut_ptr(), key.as_ptr().cast());
        let bytes = text.as_mut_ptr();
        // SAFETY: init fills the context from 32 bytes of key, 12 of nonce and the aad; update reads and writes `text` in
        // place; finalize writes 16 bytes of tag.
        unsafe {
            (self.chacha_init)(
                key,
                context,
                nonce.as_ptr().cast(),
                aad.as_ptr().cast(),
                AAD_LEN as u64,
            );
            if !text.is_empty() {
                update(key, context, bytes.cast(), bytes.cast(), text.len() as u64);
            }
            (self.chacha_finish)(context, tag.as_mut_ptr().cast(), TAG_LEN as u64);
        }
        tag
    }
}

impl Aead for Imb {
    type Key = Key;

    #[inline]
    fn open(
        &mut self,
        key: &Key,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN] {
        match &key.schedule {
            Schedule::Gcm { size, data } => {
                self.gcm_call(self.gcm[*size as usize].open, data.get(), nonce, aad, text)
            }
            Schedule::ChaCha(k) => self.chacha_call(self.chacha_open, k.bytes(), nonce, aad, text),
        }
    }

    #[inline]
    fn seal(
        &mut self,
        key: &Key,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN] {
        match &key.schedule {
            Schedule::Gcm { size, data } => {
                self.gcm_call(self.gcm[*size as usize].seal, data.get(), nonce, aad, text)
            }
            Schedule::ChaCha(k) => self.chacha_call(self.chacha_seal, k.bytes(), nonce, aad, text),
        }
    }

    #[inline(always)]
    fn prefetch_key(&self, key: &Key) {
        key.prefetch();
    }
}

impl Drop for Imb {
    fn drop(&mut self) {
        // SAFETY: Scratch is plain bytes to the library; writing zeros over all of it is valid.
        unsafe {
            let bytes = std::ptr::from_mut(&mut *self.scratch).cast::<u8>();
            std::slice::from_raw_parts_mut(bytes, size_of::<Scratch>()).zeroize();
        }
        drop(Manager(self.manager));
    }
}

impl std::fmt::Debug for Imb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Imb")
            .field("arch", &self.arch)
            .finish_non_exhaustive()
    }
}

/// Names what every version of the library has; others lie between or above.
fn arch_name(arch: imb::IMB_ARCH) -> &'static str {
    match arch {
        imb::IMB_ARCH_SSE => "SSE",
        imb::IMB_ARCH_AVX2 => "AVX2",
        imb::IMB_ARCH_AVX512 => "AVX512",
        a if a < imb::IMB_ARCH_AVX2 => "AVX",
        _ => "AVX10",
    }
}
