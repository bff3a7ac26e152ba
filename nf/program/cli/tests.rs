use super::*;
use clap::CommandFactory;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn eal_arguments_end_at_two_dashes() {
    let split_words = |text| split(words(text)).unwrap();
    assert_eq!(
        split_words("p run --config f"),
        (vec![], words("p run --config f"))
    );
    assert_eq!(
        split_words("p -l 0 -- run -x"),
        (words("-l 0"), words("p run -x"))
    );
    assert_eq!(split_words("p -- run"), (vec![], words("p run")));
    assert_eq!(split_words("p --help"), (vec![], words("p --help")));
    assert_eq!(split_words("p"), (vec![], words("p")));
    assert!(matches!(split(words("p -l 0 run")), Err(Failure::Usage(_))));
}

#[test]
fn values_out_of_range_are_refused() {
    for bad in [
        "p replay --keys k --in i --out o --prefetch 17",
        "p replay --keys k --in i --out o --burst 0",
        "p replay --keys k --in i --out o --burst 257",
        "p replay --keys k --in i --out o --batch maybe",
        "p perf --run 0",
        "p perf --cipher DES",
        "p perf --rounds 4",
        "p perf --prefetch 17",
        "p perf --direction both",
        "p perf --checksum none",
        "p run",
        "p status --socket s --config c",
        "p status s",
    ] {
        assert!(Cli::try_parse_from(words(bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_gateway_is_asked_by_its_socket_or_its_configuration() {
    let status = |text| match Cli::try_parse_from(words(text)).unwrap().command {
        Command::Status(status) => (status.json, status.config, status.socket),
        other => panic!("{other:?}"),
    };
    assert_eq!(status("p status"), (false, None, None));
    assert_eq!(
        status("p status --json --socket s"),
        (true, None, Some("s".into()))
    );
    assert_eq!(status("p status --config c"), (false, Some("c".into()), None));
}
