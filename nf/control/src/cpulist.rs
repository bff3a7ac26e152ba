//! CPU lists in the kernel's notation: `1,3-5`.

use std::collections::HashSet;
use std::fmt;

/// The highest CPU number that a list may name: a `cpu_set_t` of the C library has 1024 bits.
pub const CPU_MAX: usize = 1023;

/// Why a CPU list was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// Nothing between two commas, or nothing at all.
    #[error("an empty entry; a CPU list is like 1,3-5")]
    Empty,
    /// An entry that is neither a number nor two numbers with a hyphen between.
    #[error("{0:?} is not a CPU number or a range; a CPU list is like 1,3-5")]
    NotANumber(String),
    /// A range whose end is below its start.
    #[error("the range {0}-{1} is reversed")]
    Reversed(usize, usize),
    /// A CPU number above [`CPU_MAX`].
    #[error("CPU {0} is over {CPU_MAX}")]
    TooLarge(usize),
    /// A CPU that is listed twice.
    #[error("CPU {0} is listed twice")]
    Duplicate(usize),
}

/// Parses a CPU list such as `1,3-5` into CPU numbers, in the order written. Blanks around entries are allowed.
///
/// # Errors
/// Empty entries, reversed ranges, what is not a number, numbers over [`CPU_MAX`], duplicates.
pub fn parse(text: &str) -> Result<Vec<usize>, CpuListError> {
    let mut cpus = Vec::new();
    let mut seen = HashSet::new();
    for entry in text.split(',') {
        let entry = entry.trim();
        if entry.is_empty() {
            return Err(CpuListError::Empty);
        }
        let (first, last) = match entry.split_once('-') {
            Some((first, last)) => (number(first, entry)?, number(last, entry)?),
            None => {
                let cpu = number(entry, entry)?;
                (cpu, cpu)
            }
        };
        if last < first {
            return Err(CpuListError::Reversed(first, last));
        }
        for cpu in first..=last {
            if !seen.insert(cpu) {
                return Err(CpuListError::Duplicate(cpu));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

fn number(text: &str, entry: &str) -> Result<usize, CpuListError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(CpuListError::NotANumber(entry.to_owned()));
    }
    // Only digits: what does not fit is too large, whatever it is.
    let cpu = text.parse().unwrap_or(usize::MAX);
    if cpu > CPU_MAX {
        Err(CpuListError::TooLarge(cpu))
    } else {
        Ok(cpu)
    }
}

/// Displays CPU numbers as a list, ascending neighbours folded into ranges: `[1, 3, 4, 5]` is `1,3-5`.
/// [`parse`] gives the same numbers in the same order back.
#[derive(Debug, Clone, Copy)]
pub struct CpuList<'a>(pub &'a [usize]);

impl fmt::Display for CpuList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut comma = "";
        while let Some(&first) = rest.first() {
            let run = rest
                .iter()
                .enumerate()
                .take_while(|&(i, &cpu)| cpu == first + i)
                .count();
            write!(f, "{comma}{first}")?;
            if run > 1 {
                write!(f, "-{}", first + run - 1)?;
            }
            comma = ",";
            rest = &rest[run..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists() {
        assert_eq!(parse("1,3-5").unwrap(), [1, 3, 4, 5]);
        assert_eq!(parse(" 7 , 0 - 1").unwrap(), [7, 0, 1]);
        assert_eq!(parse("0-1023").unwrap().len(), 1024);
        assert_eq!(CpuList(&[1, 3, 4, 5, 9]).to_string(), "1,3-5,9");
        assert_eq!(CpuList(&[5, 4, 1, 2]).to_string(), "5,4,1-2");
    }

    #[test]
    fn errors() {
        assert_eq!(parse(""), Err(CpuListError::Empty));
        assert_eq!(parse("1,,2"), Err(CpuListError::Empty));
        assert_eq!(parse("5-3"), Err(CpuListError::Reversed(5, 3)));
        for bad in ["a", "1-", "-1", "1-2-3", "+1", "0x1", "auto"] {
            assert_eq!(parse(bad), Err(CpuListError::NotANumber(bad.into())), "{bad}");
        }
        assert_eq!(parse("1024"), Err(CpuListError::TooLarge(1024)));
        assert!(matches!(
            parse("1-99999999999999999999999"),
            Err(CpuListError::TooLarge(_))
        ));
        assert_eq!(parse("1,0-2"), Err(CpuListError::Duplicate(1)));
    }

    proptest! {
        #[test]
        fn round_trip(cpus in proptest::collection::hash_set(0..=CPU_MAX, 1..64)) {
            let cpus: Vec<usize> = cpus.into_iter().collect();
            prop_assert_eq!(parse(&CpuList(&cpus).to_string()).unwrap(), cpus);
        }

        #[test]
        fn any_text_is_answered(text in "[-0-9, a]{0,40}|.*") {
            if let Ok(cpus) = parse(&text) {
                prop_assert_eq!(parse(&CpuList(&cpus).to_string()).unwrap(), cpus);
            }
        }
    }
}
