//! Keys: two for each peer, every cipher, and a key whose packet ids run out.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use gateway::wait_for;
use judge::Judge;
use pair::{End, Pair, Plan, Side, keys};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Pings each peer in both families with packets of some sizes.
fn assert_pings(side: &Side, peers: u32) {
    for (peer, v6) in (0..peers).flat_map(|peer| [(peer, false), (peer, true)]) {
        for size in ["0", "1", "15", "100", "1300"] {
            let answered = side.ping(peer, v6, &["-c2", "-i0.002", "-W2", "-s", size]);
            answered.unwrap_or_else(|said| panic!("{:?}: {said}{:?}", side.end, side.losses()));
        }
    }
}

/// Keys files with a second key for each peer, of key id 5: the left side sends under the first, the right one under the
/// second.
fn two_keys(plan: &Plan) -> [String; 2] {
    let parse = |text: String| serde_json::from_str::<Value>(&text).expect("JSON");
    let first = keys(plan).map(parse);
    let second = keys(plan).map(parse);
    let mut merged = [End::Left, End::Right].map(|end| {
        let mut file = first[end.index()].clone();
        let mut others = second[end.index()]["keys"].as_array().expect("keys").clone();
        others.iter_mut().for_each(|key| key["key_id"] = 5.into());
        let mut all = file["keys"].as_array().expect("keys").clone();
        match end {
            End::Left => all.extend(others),
            End::Right => all.splice(0..0, others).for_each(drop),
        }
        file["keys"] = all.into();
        file.to_string()
    });
    merged.iter_mut().for_each(|text| text.push('\n'));
    merged
}

#[test]
fn records_under_the_secondary_key_open() {
    let mut plan = Plan {
        peers: 2,
        ..Plan::default()
    };
    plan.keys = Some(two_keys(&plan));
    Pair::test("records_under_the_secondary_key_open", &plan, |pair| {
        pair.connected();
        let judge = Judge::start(pair);
        assert_pings(&pair.left, pair.peers);
        assert_pings(&pair.right, pair.peers);
        let verdict = judge.finish(pair);
        println!("{verdict}");
        verdict.assert_nothing_missing();
        verdict.assert_opened_by_others(pair);
        let used: Vec<_> = verdict.outer.ids.keys().copied().collect();
        assert_eq!(used, [(0, 0, 0), (0, 1, 0), (1, 0, 5), (1, 1, 5)], "{verdict}");
        for side in [&pair.left, &pair.right] {
            assert_eq!(side.gateway.dropped("no_key"), 0);
        }
    });
}

fn carries(name: &str, cipher: &str) {
    let plan = Plan {
        peers: 2,
        cipher,
        ..Plan::default()
    };
    Pair::test(name, &plan, |pair| {
        pair.connected();
        let judge = Judge::start(pair);
        assert_pings(&pair.left, pair.peers);
        assert_pings(&pair.right, pair.peers);
        let verdict = judge.finish(pair);
        println!("{cipher}: {verdict}");
        verdict.assert_nothing_missing();
        verdict.assert_opened_by_others(pair);
        assert!(verdict.outer.records.iter().all(|n| *n >= 80), "{verdict}");
    });
}

#[test]
fn aes_128_gcm_carries() {
    carries("aes_128_gcm_carries", "AES-128-GCM");
}

#[test]
fn aes_192_gcm_carries() {
    carries("aes_192_gcm_carries", "AES-192-GCM");
}

#[test]
fn aes_256_gcm_carries() {
    carries("aes_256_gcm_carries", "AES-256-GCM");
}

#[test]
fn chacha20_poly1305_carries() {
    carries("chacha20_poly1305_carries", "CHACHA20-POLY1305");
}

/// The lines of a gateway's log that have this text.
fn said(side: &Side, text: &str) -> usize {
    side.gateway
        .stderr()
        .lines()
        .filter(|line| line.contains(text))
        .count()
}

/// How many packet ids the left side has.
const LEFT: u64 = 25;

/// Sets the only mark of a state file: the first id that was not reserved.
fn set_mark(path: &Path) {
    let text = fs::read_to_string(path).expect("a state file");
    let mut state: Value = serde_json::from_str(&text).expect("JSON");
    let marks = state["keys"].as_object_mut().expect("keys");
    assert_eq!(marks.len(), 1, "{marks:?}");
    marks
        .values_mut()
        .for_each(|mark| *mark = json!((1u64 << 32) - LEFT));
    fs::write(path, state.to_string()).expect("our own folder");
}

/// Forty echo requests of the left side, of which so many leave as there are ids.
fn use_up(pair: &Pair) {
    let judge = Judge::start(pair);
    let pinged = pair.left.ping(0, false, &["-c40", "-i0.02", "-W1", "-s", "100"]);
    let answered = pinged.expect("some are answered");
    let verdict = judge.finish(pair);
    println!("{verdict}");
    let received = [format!(" {LEFT} received"), format!(" {LEFT} packets received")];
    assert!(received.iter().any(|text| answered.contains(text)), "{answered}");
    let first = u32::MAX - (LEFT as u32 - 1);
    let (own, missing) = (verdict.outer.ids[&(0, 0, 0)], 40 - LEFT);
    assert_eq!(own, (first, u32::MAX, LEFT as usize), "{verdict}");
    assert_eq!(verdict.crossings[0].missing.len() as u64, missing, "{verdict}");
    assert_eq!(verdict.losses[0]["no_packet_id"], missing, "{verdict}");
    verdict.assert_explained();
    assert!(verdict.crossings[1].missing.is_empty(), "{verdict}");
    wait_for("both warnings", || {
        said(&pair.left, "packet ids run low") == 1 && said(&pair.left, "all packet ids are used") == 1
    });
}

/// A new key of another id on both sides.
fn give_new_keys(pair: &Pair, plan: &Plan) {
    for (side, text) in [&pair.left, &pair.right].into_iter().zip(keys(plan)) {
        let mut file: Value = serde_json::from_str(&text).expect("JSON");
        file["keys"][0]["key_id"] = 1.into();
        fs::write(side.gateway.folder.path().join("keys.json"), file.to_string()).expect("our file");
        side.gateway.signal("HUP");
        wait_for("it reads its files", || {
            said(side, "0 peers added, 1 changed, 0 removed") == 1
        });
    }
}

#[test]
fn after_the_last_id_nothing_leaves_until_a_new_key() {
    const NAME: &str = "after_the_last_id_nothing_leaves_until_a_new_key";
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let mut plan = Plan {
        peers: 1,
        state_files: ["left", "right"].map(|name| file(name).display().to_string()),
        ..Plan::default()
    };
    plan.keys = Some(keys(&plan));
    // A run that sends little, for the name of the key.
    let mut ran = false;
    Pair::test(NAME, &plan, |_| ran = true);
    if !ran {
        return;
    }
    set_mark(&file("left"));
    Pair::test(NAME, &plan, |pair| {
        use_up(pair);

        // The other direction goes on, though no reply comes back.
        let judge = Judge::start(pair);
        let unanswered = pair.right.ping(0, false, &["-c3", "-i0.02", "-W1"]);
        assert!(unanswered.is_err(), "{unanswered:?}");
        let verdict = judge.finish(pair);
        assert!(verdict.crossings[0].received.is_empty(), "{verdict}");
        assert_eq!(verdict.crossings[1].received.len(), 3, "{verdict}");
        assert_eq!(verdict.outer.records, [0, 3], "{verdict}");

        give_new_keys(pair, &plan);
        let judge = Judge::start(pair);
        assert_pings(&pair.left, 1);
        assert_pings(&pair.right, 1);
        let verdict = judge.finish(pair);
        verdict.assert_nothing_missing();
        // Its keys file has the new key.
        verdict.assert_opened_by_others(pair);
        for side in [0, 1] {
            assert_eq!(verdict.outer.ids[&(side, 0, 1)].0, 1, "{verdict}");
        }
    });
}
