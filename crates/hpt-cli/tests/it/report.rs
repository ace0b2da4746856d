//! The report: a page and its data, regenerated, compared, rejected; and the charts of single
//! results.

use std::{fs, path::Path, sync::OnceLock};

use serde_json::Value;

use crate::{
    schemas::validate,
    support::{at_a_terminal::AtATerminal, code, hpt, is_root, json, run, stderr, stdout},
};

/// The fastest parts that have charts.
const QUICK: [&str; 3] = ["--short", "--part", "probe,bench,timer,poll,sleep,watch"];

/// The data of a report of these parts, measured once for several tests.
fn quick_report() -> &'static str {
    static DATA: OnceLock<String> = OnceLock::new();
    DATA.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let page = words(folder.path(), "a.html");
        assert_eq!(code(&run(&[&["report", "--output", &page][..], &QUICK].concat())), 0);
        text(&folder.path().join("a.json"))
    })
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn words(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("UTF-8").to_owned()
}

/// Checks the requirements for every page.
fn assert_sound(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for forbidden in ["<script", "src=", "href=\"http", "url(", "@import", "NaN", "inf "] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let drawings = page.matches("<svg ").count();
    assert!(drawings > 0 && drawings % 3 == 0, "{drawings}: one for large, small and narrow screens each");
    for alternative in ["role=\"img\"", "<title id=", "<desc id="] {
        assert_eq!(page.matches(alternative).count(), drawings, "{alternative}");
    }
    let mut names: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "each name is there once");
}

#[test]
fn the_page_and_the_data_of_a_report_agree() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (page, data, again) =
        (folder.path().join("a.html"), folder.path().join("a.json"), folder.path().join("again.html"));
    let pictures = folder.path().join("pictures");
    let output = hpt()
        .args(["report", "--short", "--format", "json", "--output"])
        .arg(&page)
        .arg("--svg")
        .arg(&pictures)
        .env("HOME", "/home/nobody-elses-name")
        .env("USER", "nobody-elses-name")
        .output()
        .expect("it runs");
    assert!(matches!(code(&output), 0 | 1), "{}", stderr(&output));
    // One document: the parts do not print documents.
    let printed: Value = serde_json::from_str(&stdout(&output)).expect("one document");
    validate(&printed);
    assert_eq!(printed, serde_json::from_str::<Value>(&text(&data)).expect("the data are JSON"));
    for (part, document) in printed["documents"].as_object().expect("documents by name") {
        assert!(printed["parts"].as_array().expect("parts").iter().any(|row| row["name"] == part.as_str()));
        validate(document);
    }
    assert_sound(&text(&page));
    for whole in [text(&page), text(&data)] {
        assert!(!whole.contains("nobody-elses-name"));
        assert!(whole.len() < 2 << 20, "{}", whole.len());
    }
    assert!(text(&page).contains("Timing report: ") && text(&page).contains("hpt latency timer"));
    let drawn = fs::read_dir(&pictures).expect("the folder was made").count();
    assert_eq!(drawn * 3, text(&page).matches("<svg ").count());

    // The data alone regenerates the identical page, with the exit code of the measurement.
    let measured = code(&output);
    let output = run(&["report", "--from", data.to_str().expect("UTF-8"), "--output", again.to_str().expect("UTF-8")]);
    assert_eq!(code(&output), measured);
    assert_eq!(text(&again), text(&page));
    // The terminal shows the results, and then the page.
    let shown = stdout(&output);
    let last = format!("Report: file://{}", again.display());
    assert_eq!(shown.lines().last(), Some(last.as_str()), "{shown}");
    for result in ["Worst wake-up, kernel timer ", "Fastest suitable source ", "Problems found "] {
        assert!(shown.lines().any(|line| line.starts_with(result)), "{result} in\n{shown}");
    }
    assert!(!shown.contains("time s"), "{shown}");
}

#[test]
fn a_second_report_does_not_fail_because_of_the_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = |options: &[&str]| {
        let output = hpt().args(["report", "--part", "probe", "--short"]).args(options).current_dir(&folder).output();
        let output = output.expect("it was built");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let shown = stdout(&output);
        shown.lines().last().and_then(|line| line.rsplit_once('/')).expect("the path of the page").1.to_owned()
    };
    assert_eq!(report(&[]), "hpt-report.html");
    // The data of another report.
    fs::write(folder.path().join("hpt-report-2.json"), "mine").expect("ours");
    assert_eq!(report(&[]), "hpt-report-3.html");
    assert_eq!(report(&["--force"]), "hpt-report.html");
    assert_eq!(fs::read_dir(&folder).expect("ours").count(), 5);
}

#[test]
fn a_busy_machine_is_the_first_sentence_and_the_machine_is_described_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, page) = (words(folder.path(), "a.json"), words(folder.path(), "a.html"));
    let mut document: Value = serde_json::from_str(quick_report()).expect("JSON");
    document["conditions"]["load_before"] = 50.0.into();
    fs::write(&data, document.to_string()).expect("ours");
    assert_eq!(code(&run(&["report", "--from", &data, "--output", &page])), 0);
    let page = text(Path::new(&page));
    assert!(page.contains("class=\"verdict\">The machine was busy: the load average was 50"), "{page}");
    let captions = page.split("class=\"provenance\">").skip(1).filter_map(|rest| rest.split('<').next());
    let captions: Vec<&str> = captions.collect();
    assert!(captions.len() > 2 && captions.iter().all(|caption| !caption.contains("Linux ")), "{captions:#?}");
    // A p50 that is the highest of several CPUs says so.
    let cpus = document["documents"]["timer"]["results"].as_array().map_or(0, Vec::len);
    assert!(cpus < 2 || page.contains(&format!("highest p50 of {cpus} CPUs ")), "{page}");
}

#[test]
fn files_are_replaced_only_on_request_and_a_given_name_is_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = words(folder.path(), "a.html");
    fs::write(folder.path().join("a.json"), "mine").expect("ours");
    let refused = run(&["report", "--part", "probe", "--output", &page]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("a.json exists; replace it with --force"), "{}", stderr(&refused));
    assert!(!Path::new(&page).exists());
    assert_eq!(text(&folder.path().join("a.json")), "mine");
    let forced = run(&["report", "--part", "probe", "--output", &page, "--force", "--name", "<My & machine>"]);
    assert_eq!(code(&forced), 0, "{}", stderr(&forced));
    assert!(text(Path::new(&page)).contains("Timing report: &lt;My &amp; machine&gt;"));
    assert!(text(&folder.path().join("a.json")).contains("\"name\": \"<My & machine>\""));
}

#[test]
fn a_page_never_replaces_its_input_data() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (page, data, odd) =
        (words(folder.path(), "a.html"), words(folder.path(), "a.json"), words(folder.path(), "odd.html"));
    assert_eq!(code(&run(&["report", "--short", "--part", "probe,bench", "--output", &page])), 0);
    fs::copy(&data, &odd).expect("ours");
    let whole = text(Path::new(&data));
    let link = words(folder.path(), "link.html");
    std::os::unix::fs::symlink("a.json", &link).expect("ours");
    for arguments in [
        &["--from", &data, "--output", &data][..],
        &["--from", &data, "--output", &link],
        &["--from", &odd],
        &["--compare", &odd, &data, "--output", &data],
        &["--compare", &data, &odd, "--output", &data],
    ] {
        for force in [&["--force"][..], &[]] {
            let output = run(&[&["report"], arguments, force].concat());
            assert_eq!(code(&output), 2, "{arguments:?}: {}", stdout(&output));
            assert!(stderr(&output).contains("it contains the input data"), "{arguments:?}: {}", stderr(&output));
            assert_eq!(
                (text(Path::new(&data)), text(Path::new(&odd))),
                (whole.clone(), whole.clone()),
                "{arguments:?}"
            );
        }
    }
    // It can be written next to them, and replaces an older one.
    let forced = run(&["report", "--from", &data, "--force"]);
    assert_eq!(code(&forced), 0, "{}", stderr(&forced));
}

#[test]
fn an_unwritable_file_is_reported_before_the_measurement() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (arguments, said) in [
        (vec!["--output", "/proc/nonexistent/a.html"], "cannot write /proc/nonexistent/a.html: no such file"),
        (vec!["--output", "/dev/full"], "/dev/full exists"),
        (vec!["--output", folder.path().to_str().expect("UTF-8"), "--force"], "cannot write"),
        (vec!["--output", "a.json"], "with the extension .json"),
        (vec!["--output", "nonexistent/"], "cannot write nonexistent/"),
        (vec!["--svg", "/proc/nonexistent/pictures", "--output", "/proc/nonexistent/a.html"], "cannot write"),
        (vec!["--part", "lunch"], "[possible values: doctor, probe,"),
        (vec!["--from", "a.json", "--short"], "cannot be used with"),
        (vec!["--compare", "a.json"], "values required"),
    ] {
        let mut command = hpt();
        command.arg("report").args(&arguments).current_dir(folder.path()).env("NO_COLOR", "1");
        let output = AtATerminal::start(&mut command).output();
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        // A terminal shows when a part begins.
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("1 of "), "a part was begun, {arguments:?}: {}", stderr(&output));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), 0);
    for command in
        [&["bench", "--count", "10"][..], &["latency", "timer", "--count", "1"], &["watch", "--duration", "1s"]]
    {
        let output = run(&[command, &["--svg", "/proc/nonexistent/a.svg"]].concat());
        assert_eq!(code(&output), 2);
        assert!(stdout(&output).is_empty() && stderr(&output).contains("cannot write"), "{}", stderr(&output));
    }
}

#[test]
fn data_that_are_not_a_report_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.json"), quick_report()).expect("ours");
    let good: Value = serde_json::from_str(&text(&folder.path().join("a.json"))).expect("JSON");
    let whole = good.to_string();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut document = good.clone();
        change(&mut document);
        document.to_string()
    };
    for (content, said) in [
        (whole[..whole.len() / 2].to_owned(), "truncated"),
        (String::new(), "truncated"),
        ("\u{feff}<html>".to_owned(), "not JSON"),
        (good["documents"]["bench"].to_string(), "is a document of kind \"bench\""),
        (changed(&|document| document["schema"] = 3.into()), "read it with a newer version"),
        (changed(&|document| document["schema"] = 1.into()), "wrote it in layout 1, but this version reads layout 2"),
        (changed(&|document| document["parts"] = "many".into()), "does not match the schema"),
        (
            changed(&|document| document["documents"]["bench"]["results"] = "many".into()),
            "cannot read a document of kind \"bench\"",
        ),
        (
            changed(&|document| document["documents"]["timer"]["results"][0]["histogram_us"] = 7.into()),
            "cannot read a document",
        ),
        (
            changed(&|document| document["documents"]["poll"]["kind"] = "weather".into()),
            "does not support part \"poll\" of the document",
        ),
        (changed(&|document| document["documents"]["timer"]["machine"] = Value::Null), "the machine on which"),
    ] {
        let bad = words(folder.path(), "bad.json");
        fs::write(&bad, content).expect("ours");
        let good = words(folder.path(), "a.json");
        let out = words(folder.path(), "bad.html");
        for arguments in
            [&["report", "--from", &bad, "--output", &out][..], &["report", "--compare", &good, &bad, "--output", &out]]
        {
            if arguments.contains(&"--compare") && said.contains("is a document of kind \"bench\"") {
                // Such a document can be compared.
                continue;
            }
            let output = run(arguments);
            assert_eq!(code(&output), 2, "{said}: {}", stdout(&output));
            assert!(stderr(&output).contains(said) && stdout(&output).is_empty(), "{said}: {}", stderr(&output));
            assert!(!Path::new(&out).exists());
        }
    }
    for (path, said) in
        [("/proc/nonexistent/a.json", "no such file"), ("/dev/null", "not a regular file"), ("/", "not a regular file")]
    {
        let output = run(&["report", "--from", path, "--output", &words(folder.path(), "b.html")]);
        assert_eq!(code(&output), 2, "{path}");
        assert!(stderr(&output).contains(said), "{path}: {}", stderr(&output));
    }
}

#[test]
fn two_reports_are_compared_side_by_side_and_differences_are_marked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.json"), quick_report()).expect("ours");
    let (one, other) = (words(folder.path(), "a.json"), words(folder.path(), "b.json"));
    let mut document: Value = serde_json::from_str(&text(Path::new(&one))).expect("JSON");
    // The same machine, except for the p99 of its wake-ups, which fell. The medians and the maxima are the same.
    let figures = |document: &mut Value, p99: u64| {
        let row = &mut document["documents"]["timer"]["results"][0];
        (row["p50_ns"], row["p99_ns"]) = (50_000.into(), p99.into());
        let interval = |quantile: &str, ns: u64| serde_json::json!({ "quantile": quantile, "confidence": 0.999, "low_ns": ns / 10 * 9, "high_ns": ns / 10 * 11 });
        row["intervals"] = vec![interval("p50", 50_000), interval("p99", p99)].into();
    };
    figures(&mut document, 3_790_000);
    fs::write(&one, document.to_string()).expect("ours");
    figures(&mut document, 138_000);
    let name = "wake-up latency, kernel's timer";
    // Another kernel, another command line, and a rate from another origin.
    for part in ["timer", "watch"] {
        document["documents"][part]["machine"]["kernel_release"] = "9.9.9-other".into();
    }
    let part = document["parts"].as_array_mut().and_then(|parts| parts.iter_mut().find(|part| part["name"] == "sleep"));
    part.expect("it was measured")["command"] = "hpt sleep --count 999999".into();
    let watched = document["documents"]["watch"]["sources"][0]["source"].as_str().expect("a name").to_owned();
    document["documents"]["watch"]["sources"][0]["expected_origin"] = "weather".into();
    fs::write(&other, document.to_string()).expect("ours");
    let beside = words(folder.path(), "beside.html");
    let output = run(&["report", "--compare", &one, &other, "--output", &beside, "--format", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let compared = json(&output);
    validate(&compared);
    assert_eq!(compared["differing"], 1, "{compared:#}");
    let rows = compared["results"].as_array().expect("rows");
    assert_eq!(compared["quantities"].as_u64().map(|count| count * 2), Some(rows.len() as u64));
    let differing = rows.iter().find(|row| row["verdict"] == "differs");
    assert!(
        differing.is_some_and(|row| row["quantity"].as_str().is_some_and(|what| what.ends_with(", p99"))),
        "{compared:#}"
    );
    let rate = format!("{watched}, frequency error against monotonic-raw");
    let row = rows.iter().find(|row| row["quantity"] == rate.as_str() && row["side"] == "B");
    assert_eq!(row.map(|row| &row["verdict"]), Some(&"different nominal rates".into()), "{compared:#}");
    for noted in ["`hpt sleep --count 999999`", "MHz (weather)"] {
        assert!(compared["notes"].to_string().contains(noted), "{noted}: {compared:#}");
    }
    let page = text(Path::new(&beside));
    let lines = page.split("class=\"provenance\">").skip(1).filter_map(|rest| rest.split('<').next());
    let lines: Vec<&str> = lines.filter(|line| line.contains("9.9.9-other")).collect();
    assert!(lines.len() >= 2 && lines.iter().all(|line| line.starts_with('A') && line.contains(" — B")), "{lines:#?}");
    assert_sound(&page);
    assert_eq!(page.matches("class=\"marked\"").count(), 1);
    // The differences come first.
    let place = |id: &str| page.find(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("no section {id}"));
    assert!(place("differences") < place("bench"), "{page}");
    let same = json(&run(&["report", "--compare", &one, &one, "--format", "json"]));
    assert_eq!((&same["differing"], same["rules"].as_array().map(Vec::len)), (&0.into(), Some(0)));
    let csv = stdout(&run(&["report", "--compare", &one, &other, "--format", "csv"]));
    assert!(csv.starts_with("part,quantity,unit,side,value,") && csv.lines().count() > 5, "{csv}");
    // On a terminal, the headline and the difference come first, and all values only on request.
    let shown = stdout(&run(&["report", "--compare", &one, &other]));
    assert!(shown.starts_with("These two runs differ in 1 of "), "{shown}");
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined(&shown).contains(name) && !shown.contains("no difference"), "{shown}");
    let all = stdout(&run(&["report", "--compare", &one, &other, "-v"]));
    let all = joined(&all.replace('\u{a0}', " "));
    assert!(all.contains("× 1.15") && all.contains("not judged"), "{all}");
}

#[test]
fn a_part_that_only_the_second_report_has_has_one_section() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (one, other, page) =
        (words(folder.path(), "a.json"), words(folder.path(), "b.json"), words(folder.path(), "both.html"));
    fs::write(&other, quick_report()).expect("ours");
    // In the first report, one of the sleep methods is missing.
    let mut document: Value = serde_json::from_str(quick_report()).expect("JSON");
    let rows = document["documents"]["sleep"]["results"].as_array_mut().expect("rows");
    rows.retain(|row| row["method"] != "busy");
    fs::write(&one, document.to_string()).expect("ours");
    let output = run(&["report", "--compare", &one, &other, "--output", &page]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let page = text(Path::new(&page));
    assert_sound(&page);
    for part in ["sleep", "watch"] {
        assert_eq!(page.matches(&format!("id=\"{part}\"")).count(), 1, "{part}");
        assert_eq!(page.matches(&format!("href=\"#{part}\"")).count(), 1, "{part}");
    }
    let last = stdout(&output).lines().last().map(str::to_owned);
    assert!(last.is_some_and(|line| line.starts_with("Report: file:///")), "{}", stdout(&output));
}

/// Returns the report of a machine with this governor, whose wake-ups are slower by a factor.
fn report_of(name: &str, governor: &str, factor: u64) -> String {
    let mut document: Value = serde_json::from_str(quick_report()).expect("JSON");
    document["name"] = name.into();
    document["conditions"]["governors"] = vec![governor].into();
    let rows = document["documents"]["timer"]["results"].as_array_mut().expect("rows");
    for row in rows {
        for figure in ["min_ns", "p50_ns", "p99_ns", "max_ns"] {
            row[figure] = (1_000 * factor).into();
        }
    }
    document.to_string()
}

#[test]
fn five_reports_are_ranked_with_outliers_and_the_settings_that_separate_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machines = [
        ("ada", "ondemand", 900),
        ("ben", "performance", 10),
        ("cyd", "ondemand", 950),
        ("dan", "performance", 11),
        ("eve", "performance", 12),
    ];
    let paths: Vec<String> = machines
        .iter()
        .map(|(name, governor, factor)| {
            let path = words(folder.path(), &format!("{name}.json"));
            fs::write(&path, report_of(name, governor, *factor)).expect("ours");
            path
        })
        .collect();
    let page = words(folder.path(), "all.html");
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let arguments = [&["report", "--compare"][..], &paths, &["--output", &page, "--format", "json"]].concat();
    let output = run(&arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let compared = json(&output);
    validate(&compared);
    let ranking: Vec<_> = compared["ranking"].as_array().expect("rows").iter().collect();
    let order: Vec<_> = ranking.iter().filter_map(|row| row["side"].as_str()).collect();
    assert_eq!(order, ["ben", "dan", "eve", "ada", "cyd"]);
    let outliers: Vec<_> =
        ranking.iter().filter(|row| row["outlier"] == true).filter_map(|row| row["side"].as_str()).collect();
    assert_eq!(outliers, ["ada", "cyd"]);
    let said = "The 2 slowest sides have governor=ondemand; the others have performance.";
    assert_eq!(compared["coincidences"], serde_json::json!([said]));
    assert_eq!(compared["settings"][0]["setting"], "governor", "{:#}", compared["settings"]);
    let page = text(Path::new(&page));
    assert_sound(&page);
    assert!(page.contains(said) && page.contains("Comparison of 5 sides"));
    for id in ["differences", "ranking", "settings", "timer"] {
        assert_eq!(page.matches(&format!("<section id=\"{id}\"")).count(), 1, "{id}");
    }
    let shown = stdout(&run(&[&["report", "--compare"][..], &paths].concat()));
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("governor ondemand (ada, cyd); performance (ben, dan, eve)"), "{shown}");
    assert!(shown.contains(said) && shown.contains("950 µs (outlier)"), "{shown}");
}

/// Returns a report of a hundred million wake-ups of which one was far later than all others.
fn report_with_a_worst_sample() -> String {
    let mut document: Value = serde_json::from_str(quick_report()).expect("JSON");
    let rows = document["documents"]["timer"]["results"].as_array_mut().expect("rows");
    for row in &mut *rows {
        row["samples"] = 100_000_000_u64.into();
        row["histogram_ns"] = serde_json::json!([[2_048, 2_176, 99_999_999_u64], [7_864_320, 8_388_608, 1]]);
        row["histogram_us"] = serde_json::json!([[2, 99_999_999_u64], [8_000, 1]]);
        (row["min_ns"], row["p50_ns"], row["p99_ns"], row["max_ns"]) =
            (2_100.into(), 2_100.into(), 2_100.into(), 8_000_000.into());
        for tail in ["p999_ns", "p9999_ns", "p99999_ns"] {
            row[tail] = 2_100.into();
        }
    }
    rows.truncate(1);
    document["documents"].as_object_mut().expect("parts").retain(|part, _| part == "timer");
    document.to_string()
}

#[test]
fn the_worst_of_a_hundred_million_samples_is_visible_on_a_small_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, page, charts) =
        (words(folder.path(), "a.json"), words(folder.path(), "a.html"), folder.path().join("charts"));
    fs::write(&data, report_with_a_worst_sample()).expect("ours");
    let output =
        hpt().args(["report", "--from", &data, "--output", &page, "--svg"]).arg(&charts).output().expect("it runs");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let page = text(Path::new(&page));
    assert_sound(&page);
    assert!(page.len() < 1_000_000, "{}", page.len());
    assert!(page.contains("Worst wake-up, kernel timer") && page.contains("8 ms"), "{page}");
    let chart = text(&charts.join("01-latency-timer.svg"));
    for there in ["10⁻⁶ %", "max 8 ms", "1 sample</title>", "the worst of 100\u{202f}000\u{202f}000 samples: 8 ms"]
    {
        assert!(chart.contains(there), "{there} is not in {chart}");
    }
    // The curve of the share of later samples falls from the top to the bottom of its panel, where one sample in
    // 10⁸ is. The tick of this share is at the same height.
    let points = chart.split("<polyline ").filter_map(|part| part.split_once("points=\"")?.1.split('"').next());
    let lowest = points
        .flat_map(|points| points.split_whitespace().filter_map(|point| point.split_once(',')?.1.parse::<i32>().ok()))
        .max()
        .expect("there is a curve");
    let tick = chart.split("<text ").find(|text| text.contains("10⁻⁶ %")).expect("there is a tick");
    let y = tick.split_once(" y=\"").and_then(|(_, rest)| rest.split_once('"')).expect("it has a place").0;
    assert!((y.parse::<i32>().expect("a number") - lowest).abs() < 100, "{y} {lowest}");
    let tick = chart.split("<text ").find(|text| text.contains("0.001 %")).expect("there is a tick");
    let y = tick.split_once(" y=\"").and_then(|(_, rest)| rest.split_once('"')).expect("it has a place").0;
    assert!(y.parse::<i32>().expect("a number") + 300 < lowest, "the axis does not end there: {y} {lowest}");
}

#[test]
fn a_limit_of_a_document_is_drawn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, charts) = (words(folder.path(), "a.json"), folder.path().join("charts"));
    let mut document: Value = serde_json::from_str(&report_with_a_worst_sample()).expect("JSON");
    document["documents"]["timer"]["limits"] = serde_json::json!([{
        "text": "max=1ms", "quantity": "max", "limit_ns": 1_000_000, "limit_count": null, "seen_ns": 8_000_000.0,
        "seen_count": null, "worst_row": "CPU 1", "samples": 100, "rows": 1, "held": false, "reason": null,
    }]);
    fs::write(&data, document.to_string()).expect("ours");
    let output = hpt().args(["report", "--from", &data, "--svg"]).arg(&charts).output().expect("it runs");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(text(&charts.join("01-latency-timer.svg")).contains("limit: max=1ms"));
}

#[test]
fn published_figures_are_shown_only_on_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let help = stdout(&run(&["report", "--help"]));
    assert!(help.contains("all but experiment"), "{help}");
    let page = words(folder.path(), "a.html");
    let output = run(&["report", "--short", "--part", "experiment", "--output", &page]);
    assert!(matches!(code(&output), 0 | 1), "{}", stderr(&output));
    assert!(text(Path::new(&page)).contains("<section id=\"published\""));
}

#[test]
fn an_interrupted_report_is_written_and_marked_as_interrupted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = words(folder.path(), "a.html");
    // Several parts, each with its own signal handler: one signal ends the part and the report, and
    // is not duplicated. When the first part has begun, most of a minute is still left.
    let mut running = AtATerminal::start(hpt().args(["report", "--output", &page, "--format", "json"]));
    running.wait_until_shown("a part has begun", |shown| shown.contains("1 of "));
    running.interrupt();
    let output = running.output();
    let document = json(&output);
    validate(&document);
    assert_eq!(document["interrupted"], true, "{}", stderr(&output));
    let states: Vec<&str> =
        document["parts"].as_array().expect("parts").iter().filter_map(|part| part["state"].as_str()).collect();
    assert!(states.contains(&"not-started"), "{states:?}");
    assert!(text(Path::new(&page)).contains("ended early"));
    assert!(text(&folder.path().join("a.json")).contains("\"interrupted\": true"));
}

#[test]
fn a_failed_part_is_reported_and_the_others_are_included() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = words(folder.path(), "a.html");
    let output =
        run(&["report", "--short", "--part", "probe,bench", "--cpu", "99999", "--output", &page, "--format", "json"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let document = json(&output);
    validate(&document);
    assert_eq!(document["parts"][1]["state"], "failed");
    assert!(
        document["parts"][1]["reason"].as_str().is_some_and(|why| why.contains("no such CPU: 99999")),
        "{document:#}"
    );
    assert!(text(Path::new(&page)).contains("no such CPU: 99999"));
}

#[test]
fn single_results_are_drawn_on_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, arguments) in [
        ("bench", &["bench", "--count", "1000"][..]),
        ("sleep", &["sleep", "--count", "3", "--length", "100us,1ms"]),
        ("timer", &["latency", "timer", "--count", "50", "--cpu", "all"]),
        ("poll", &["latency", "poll", "--count", "50"]),
        ("pairs", &["latency", "pairs", "--count", "5"]),
        ("watch", &["watch", "--duration", "900ms", "--interval", "200ms"]),
    ] {
        let path = words(folder.path(), name);
        let output = run(&[arguments, &["--svg", &path]].concat());
        assert!(matches!(code(&output), 0 | 1), "{name}: {}", stderr(&output));
        let drawing = text(Path::new(&path));
        assert!(drawing.starts_with("<svg ") && drawing.trim_end().ends_with("</svg>"), "{name}");
        for there in ["role=\"img\"", "<title id=", "<desc id=", "prefers-color-scheme"] {
            assert!(drawing.contains(there), "{name} lacks {there}");
        }
    }
    // The short test may observe no stall. In that case there is no chart, but there is a result.
    let path = words(folder.path(), "stall");
    let output = run(&["latency", "stall", "--above", "50s", "--duration", "50ms", "--svg", &path]);
    assert_eq!(code(&output), 3);
    assert!(
        stdout(&output).contains("stall") && stderr(&output).contains("the document has no measurements to draw"),
        "{}",
        stderr(&output)
    );
    assert!(!Path::new(&path).exists());
}

#[test]
fn a_full_disk_leaves_no_incomplete_report() {
    if !is_root() {
        skipped!("to mount a disk that is full takes root");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    // In a separate mount namespace, so that nothing is left.
    let script = r#"mount -t tmpfs -o size=64k none "$1" && "$2" report --part probe,bench,timer --short --output "$1/a.html" --svg "$1/pictures/of it"; code=$?; ls -A "$1"; exit $code"#;
    let words = crate::support::words();
    let [program] = words.as_slice() else {
        skipped!("an emulator runs the tests");
        return;
    };
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(program)
        .output();
    let Ok(output) = output else {
        skipped!("there is no unshare");
        return;
    };
    let said = stderr(&output);
    if said.contains("unshare:") || said.contains("mount:") {
        skipped!("{said}");
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write") && said.contains("no space left"), "{said}");
    assert!(!said.contains(" at path "), "it names a removed file: {said}");
    assert_eq!(stdout(&output), "", "nothing is left on the disk");
}
