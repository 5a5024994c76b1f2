//! What a checkpoint withstands: every file of it lost, cut or changed, and a disk that fails.

use super::*;

/// A run of six steps that stopped after four, with checkpoints of 2 and 4.
fn stopped(dir: &Path) {
    go_on(dir, &long(), &mut Script { stop_after: Some(4), ..Script::default() }).unwrap_err();
    assert_eq!(checkpoints(dir), ["checkpoint-2", "checkpoint-4"]);
}

/// Where a run would go on from, and what it says on the way.
fn begins(dir: &Path) -> (usize, Vec<String>) {
    let mut script = Script { stop_after: Some(0), ..Script::default() };
    match go_on(dir, &long(), &mut script) {
        Err(TrainError::Stopped { step }) => (step, script.notes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_checkpoint_with_any_file_lost_cut_or_changed_is_passed_over_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    stopped(home.path());
    let place = home.path().join("checkpoint-4");
    let mut files: Vec<_> =
        fs::read_dir(&place).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let expected = "COMPLETE README.md adapter_config.json adapter_model.safetensors progress.json state.safetensors \
                    trainer_state.json";
    assert_eq!(files.join(" "), expected);
    assert_eq!(begins(home.path()), (4, vec![]));
    for file in &files {
        let path = place.join(file);
        let whole = fs::read(&path).unwrap();
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            Some(bytes)
        };
        let last = whole.len() - 1;
        let cut = |length: usize| Some(whole[..length].to_vec());
        let damages = [None, cut(0), cut(last / 2), cut(last), flipped(0), flipped(last / 2), flipped(last)];
        for (number, damage) in damages.into_iter().enumerate() {
            match damage {
                Some(bytes) => fs::write(&path, bytes).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let (step, notes) = begins(home.path());
            // Without the last line's end, the list of hashes is still whole.
            if file == "COMPLETE" && number == 3 {
                assert_eq!((step, notes), (4, vec![]));
                continue;
            }
            assert_eq!((step, notes.len()), (2, 1), "{file} {number}: {notes:?}");
            assert!(notes[0].contains("checkpoint-4: passed over: "), "{}", notes[0]);
            let named = notes[0].contains(file.as_str()) || (file == "COMPLETE" && notes[0].contains("was changed"));
            assert!(named, "{file} {number}: {}", notes[0]);
        }
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(begins(home.path()), (4, vec![]), "all is as it was");
}

#[test]
fn a_forged_list_of_hashes_does_not_make_a_checkpoint_of_nonsense() {
    let home = tempfile::tempdir().unwrap();
    stopped(home.path());
    let place = home.path().join("checkpoint-4");
    let forge = |file: &str, bytes: &[u8]| {
        let was = fs::read(place.join(file)).unwrap();
        fs::write(place.join(file), bytes).unwrap();
        let list = fs::read_to_string(place.join("COMPLETE")).unwrap();
        let line = |line: &str| match line.strip_suffix(file) {
            Some(_) => format!("{}  {file}\n", crate::store::hash_bytes(bytes)),
            None => format!("{line}\n"),
        };
        fs::write(place.join("COMPLETE"), list.lines().map(line).collect::<String>()).unwrap();
        let found = begins(home.path());
        fs::write(place.join(file), was).unwrap();
        fs::write(place.join("COMPLETE"), list).unwrap();
        found
    };
    let progress = fs::read_to_string(place.join("progress.json")).unwrap();
    let with = |was: &str, is: &str| {
        assert!(progress.contains(was), "{was}");
        progress.replacen(was, is, 1)
    };
    let state = fs::read(place.join("state.safetensors")).unwrap();
    let mut nan = state.clone();
    let end = nan.len();
    nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    for (file, bytes, says) in [
        ("progress.json", "{}".into(), "progress.json: missing field"),
        ("progress.json", "[".repeat(100_000), "progress.json: invalid type"),
        ("progress.json", with("\"lines\":[", &format!("\"lines\":[{}", "[".repeat(100_000))), "progress.json: "),
        ("progress.json", with("\"step\":4", "\"step\":5"), "it holds step 5"),
        ("progress.json", with("\"updates\":4", "\"updates\":999"), "999 updates"),
        ("progress.json", with("\"best_step\":null", "\"best_step\":3"), "checkpoint-3, its best, is not whole"),
    ] {
        let (step, notes) = forge(file, bytes.as_bytes());
        assert!(step == 2 && notes[0].contains(says), "{says}: {notes:?}");
    }
    for (bytes, says) in [(&nan[..], "is not finite"), (&state[..99], "truncated"), (b"", "empty")] {
        let (step, notes) = forge("state.safetensors", bytes);
        assert!(step == 2 && notes[0].contains(says), "{says}: {notes:?}");
    }
    assert_eq!(begins(home.path()), (4, vec![]));
}

#[test]
fn when_none_is_whole_the_run_starts_anew_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    stopped(home.path());
    for step in [2, 4] {
        fs::remove_file(home.path().join(format!("checkpoint-{step}/COMPLETE"))).unwrap();
    }
    let (step, notes) = begins(home.path());
    assert_eq!((step, notes.len()), (0, 3));
    assert_eq!(notes[2], "no checkpoint of this run is whole; training starts at the first step");
}

#[test]
fn a_kill_between_the_two_renames_of_a_save_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    stopped(home.path());
    let (place, old) = (home.path().join("checkpoint-4"), home.path().join(".checkpoint-4.old"));
    // Killed before the new one was put in its place.
    fs::rename(&place, &old).unwrap();
    copy(&old, &home.path().join(".checkpoint-4.partial"));
    assert_eq!(begins(home.path()), (4, vec![]));
    assert!(place.is_dir() && !old.exists() && !home.path().join(".checkpoint-4.partial").exists());
    // Killed after it, or amid a removal.
    copy(&place, &old);
    copy(&place, &home.path().join(".checkpoint-1.removed"));
    assert_eq!(begins(home.path()), (4, vec![]));
    assert_eq!(checkpoints(home.path()), ["checkpoint-2", "checkpoint-4"]);
}

#[test]
fn as_many_checkpoints_are_kept_as_the_limit_says_and_the_best_beside_them() {
    let home = tempfile::tempdir().unwrap();
    let kept = |limit: usize, metrics: [f64; 6]| {
        let dir = home.path().join(format!("{limit}{metrics:?}"));
        let config = TrainConfig { evals_per_epoch: 3, save_steps: 1, save_total_limit: limit, ..long() };
        let metrics = metrics.map(Ok).to_vec();
        go_on(&dir, &config, &mut Script { metrics, ..Script::default() }).unwrap();
        let steps = checkpoints(&dir).into_iter().map(|name| name.replace("checkpoint-", ""));
        steps.collect::<Vec<_>>().join(" ")
    };
    let falling = [0.5, 0.9, 0.4, 0.3, 0.2, 0.1];
    assert_eq!(kept(0, falling), "1 2 3 4 5 6");
    assert_eq!(kept(1, falling), "2 6");
    assert_eq!(kept(3, falling), "2 4 5 6");
    // 5 still names 2 as its best, and can be gone on from should 6 be damaged.
    assert_eq!(kept(2, [0.5, 0.7, 0.4, 0.3, 0.2, 0.9]), "2 5 6");
    assert_eq!(kept(1, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), "6");
}
