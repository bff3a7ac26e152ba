//! Commands on the telemetry socket, read with DPDK's own client: every kind of value, and a panic that stays here.

use std::io::Write;
use std::process::{Command, Stdio};

use lcore::telemetry::{Answer, Answers, Value, serve};
use lcore::{Eal, RuntimeDir};

struct Test;

impl Answers for Test {
    fn answer(&mut self, command: &str, parameters: &str) -> Answer {
        assert_ne!(command, "/test/boom", "this one panics on purpose");
        vec![
            ("number".into(), Value::Number(u64::MAX)),
            ("text".into(), Value::Text(format!("got {parameters}"))),
            ("numbers".into(), Value::Numbers(vec![1, 2, 1 << 40])),
            ("texts".into(), Value::Texts(vec!["3-4".into(), String::new()])),
        ]
    }
}

#[test]
fn commands_are_answered_and_a_panic_ends_nothing() {
    let prefix = format!("telemetry-{}", std::process::id());
    let files = RuntimeDir::of(&prefix);
    let words = [
        "-l",
        "0",
        "--no-huge",
        "-m",
        "64",
        "--no-pci",
        "--file-prefix",
        &prefix,
    ];
    let eal = Eal::init(&words.map(String::from)).expect("the EAL starts");
    let commands = [(c"/test/all", c"All kinds"), (c"/test/boom", c"Panics")];
    let serving = serve(&eal, &commands, Box::new(Test)).expect("the commands are registered");
    let all = r#""number": 18446744073709551615, "text": "got a=1,b", "numbers": [1, 2, 1099511627776], "texts": ["3-4", ""]"#;
    let answers = ask(&prefix, &["/test/all,a=1,b", "/test/boom", "/test/all,a=1,b"]);
    assert_eq!(answers.matches(all).count(), 2, "{answers}");
    assert!(answers.contains(r#"{"/test/boom": null}"#), "{answers}");
    drop(serving);
    assert!(ask(&prefix, &["/test/all"]).contains(r#"{"/test/all": null}"#));
    let bad = serve(&eal, &[(c"no-slash", c"")], Box::new(Test))
        .err()
        .expect("it is refused")
        .to_string();
    assert!(bad.contains("no-slash") && !bad.contains('\n'), "{bad}");
    let folder = files.path().to_owned();
    assert!(folder.exists());
    drop(eal);
    drop(files);
    assert!(!folder.exists());
}

fn ask(prefix: &str, commands: &[&str]) -> String {
    let mut tool = Command::new("dpdk-telemetry.py")
        .args(["-f", prefix])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("DPDK's tools are installed");
    let mut input = tool.stdin.take().expect("piped");
    commands
        .iter()
        .for_each(|c| writeln!(input, "{c}").expect("it reads"));
    drop(input);
    String::from_utf8_lossy(&tool.wait_with_output().expect("it ends").stdout).into_owned()
}
