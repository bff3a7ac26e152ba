//! What the CPU must have.

use ipsec_mb_sys as imb;

/// Whole features: all that the AEADs' slowest accepted implementation (SSE) uses.
const NEEDED: [(u64, &str); 4] = [
    (imb::IMB_FEATURE_AESNI as u64, "AES-NI"),
    (imb::IMB_FEATURE_PCLMULQDQ as u64, "PCLMULQDQ"),
    (imb::IMB_FEATURE_SSE4_2 as u64, "SSE4.2"),
    (imb::IMB_FEATURE_CMOV as u64, "CMOV"),
];

/// Checks the CPU features that IPsec-MB found (`IMB_FEATURE_*` bits of `IMB_MGR.features`). The error is one line
/// that names what the CPU lacks.
pub fn check_cpu(features: u64) -> Result<(), String> {
    let lacks: Vec<_> = NEEDED
        .iter()
        .filter(|(bit, _)| features & bit == 0)
        .map(|(_, name)| *name)
        .collect();
    if lacks.is_empty() {
        return Ok(());
    }
    let needed: Vec<_> = NEEDED.iter().map(|(_, name)| *name).collect();
    Err(format!(
        "this CPU lacks {} (needed: {})",
        lacks.join(", "),
        needed.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_without_aes_is_refused_by_name() {
        let all = NEEDED.iter().map(|(bit, _)| bit).sum::<u64>();
        assert_eq!(check_cpu(all), Ok(()));
        assert_eq!(check_cpu(u64::MAX), Ok(()));
        for (bit, name) in NEEDED {
            let error = check_cpu(all & !bit).expect_err(name);
            assert!(
                error.starts_with(&format!("this CPU lacks {name} (needed: AES-NI, ")),
                "{error}"
            );
        }
        assert!(
            check_cpu(0)
                .expect_err("no feature")
                .starts_with("this CPU lacks AES-NI, PCLMULQDQ, SSE4.2, CMOV")
        );
    }
}
