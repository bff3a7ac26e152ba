//! An EAL that cannot start says why, in one line.

use lcore::affinity::CpuSet;
use lcore::{Eal, Error};

#[test]
fn a_wrong_argument_is_one_line() {
    let before = CpuSet::current().expect("an affinity").cpus();
    let nul = Eal::init(&["-l\0".to_string()])
        .map(drop)
        .expect_err("no C string")
        .to_string();
    assert_eq!(nul, "EAL argument \"-l\\0\" holds a NUL byte");
    let args = [
        "--no-huge",
        "--no-pci",
        "--no-shconf",
        "--no-telemetry",
        "-l",
        "4095",
    ]
    .map(String::from);
    let error = Eal::init(&args).map(drop).expect_err("no such CPU").to_string();
    assert!(
        error.starts_with("the EAL does not start: ") && error.contains("EAL: "),
        "{error}"
    );
    assert!(!error.contains('\n'), "{error}");
    assert_eq!(
        CpuSet::current().expect("an affinity").cpus(),
        before,
        "not pinned"
    );
    assert!(
        matches!(Eal::init(&args), Err(Error::EalTwice)),
        "and it starts once"
    );
}
