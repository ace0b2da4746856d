//! The files in `dist/` for Prometheus and Grafana use only metrics and labels that docs/metrics.md
//! documents, and the build script leaves the system unchanged.

use std::{collections::BTreeMap, fs, process::Command};

use serde_json::Value;

use crate::support::pages::project;

/// The metrics of node_exporter that the files use, with the labels that they use.
const OTHERS: [(&str, &[&str]); 2] =
    [("node_cpu_seconds_total", &["mode"]), ("node_textfile_mtime_seconds", &["file"])];

fn read(path: &str) -> String {
    fs::read_to_string(project().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the metrics of docs/metrics.md with their labels, those of the recording rules, and
/// those of node_exporter.
fn promised() -> BTreeMap<String, Vec<String>> {
    let mut promised = BTreeMap::new();
    for line in read("docs/metrics.md").lines().filter(|line| line.starts_with("| `hpt_")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next().expect("a name").trim_matches('`').to_owned();
        let labels = cells.next().expect("labels").split(',').map(|label| label.trim().to_owned());
        promised.insert(name, labels.filter(|label| !label.is_empty()).collect());
    }
    for (name, labels) in OTHERS {
        assert!(read("docs/metrics.md").contains(&format!("`{name}`")), "docs/metrics.md does not name {name}");
        promised.insert(name.to_owned(), labels.iter().map(|&label| label.to_owned()).collect());
    }
    promised
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Returns the metrics in a query, each with the labels that the query uses.
fn asked(query: &str) -> Vec<(String, Vec<String>)> {
    let mut asked = Vec::new();
    for (place, _) in query.match_indices(|c: char| c.is_ascii_alphabetic()) {
        if query[..place].ends_with(is_of_a_name) {
            continue;
        }
        let name: String = query[place..].chars().take_while(|&c| is_of_a_name(c)).collect();
        if !["hpt_", "node_", "instance:"].iter().any(|beginning| name.starts_with(beginning)) {
            continue;
        }
        let rest = &query[place + name.len()..];
        let matchers = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or("");
        let labels =
            matchers.split(',').filter_map(|matcher| Some(matcher.split_once(['=', '!'])?.0.trim().to_owned()));
        asked.push((name, labels.collect()));
    }
    asked
}

/// Returns the undocumented metrics and labels in a query.
fn unpromised(query: &str, promised: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut unpromised = Vec::new();
    for (name, labels) in asked(query) {
        match promised.get(&name) {
            None => unpromised.push(name),
            Some(known) => unpromised.extend(
                labels
                    .iter()
                    .filter(|&label| label != "instance" && !known.contains(label))
                    .map(|label| format!("{label} of {name}")),
            ),
        }
    }
    unpromised
}

#[test]
fn the_rules_use_documented_metrics() {
    let rules = read("dist/prometheus/hpt.rules.yml");
    let mut promised = promised();
    for record in rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")) {
        promised.insert(record.to_owned(), Vec::new());
    }
    let queries: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert!(queries.len() > 8, "{queries:?}");
    for query in queries {
        assert!(!asked(query).is_empty(), "{query}");
        assert_eq!(unpromised(query, &promised), Vec::<String>::new(), "{query}");
    }
}

/// Returns the panels with queries.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    dashboard["panels"].as_array().expect("panels").iter().filter(|panel| panel["type"] != "row")
}

#[test]
fn the_dashboard_uses_documented_metrics() {
    let dashboard: Value = serde_json::from_str(&read("dist/grafana/hpt.json")).expect("JSON");
    let promised = promised();
    for panel in panels(&dashboard) {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            let metrics = asked(query);
            assert_eq!(metrics.len(), 1, "{query}");
            assert_eq!(unpromised(query, &promised), Vec::<String>::new(), "{query}");
            assert!(metrics[0].1.contains(&"instance".to_owned()), "{query} is not of the machine that was chosen");
            // The legend uses labels that the metric has.
            for label in target["legendFormat"].as_str().expect("a legend").split("{{").skip(1) {
                let label = label.split("}}").next().unwrap_or("").to_owned();
                assert!(label == "instance" || promised[&metrics[0].0].contains(&label), "{label} of {query}");
            }
        }
    }
}

#[test]
fn the_dashboard_is_complete() {
    let dashboard: Value = serde_json::from_str(&read("dist/grafana/hpt.json")).expect("JSON");
    // Grafana assigns the id, and the user selects the data source.
    assert_eq!(dashboard["id"], Value::Null);
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    let mut places: Vec<[u64; 4]> = Vec::new();
    let mut numbers = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let place = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().expect("a number"));
        let [x, y, w, h] = place;
        assert!(x + w <= 24, "{panel}");
        let overlaps = |other: &[u64; 4]| {
            x < other[0] + other[2] && other[0] < x + w && y < other[1] + other[3] && other[1] < y + h
        };
        assert!(!places.iter().any(overlaps), "{panel}");
        places.push(place);
        assert!(!numbers.contains(&&panel["id"]), "{panel}");
        numbers.push(&panel["id"]);
    }
    for panel in panels(&dashboard) {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        for told in [&panel["title"], &panel["description"], &panel["fieldConfig"]["defaults"]["unit"]] {
            assert!(told.as_str().is_some_and(|told| !told.is_empty()), "{panel}");
        }
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().expect("a unit");
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            // Panels of seconds use the unit s, and those of ratios the unit ppm.
            let is_in_seconds = query.contains("_seconds{") && !query.contains("rate(");
            assert_eq!(unit == "s", is_in_seconds, "{query}");
            assert_eq!(unit == "ppm", query.contains("_ratio{"), "{query}");
        }
    }
}

#[test]
fn a_query_for_an_unknown_metric_is_detected() {
    let promised = promised();
    for query in [
        "hpt_source_cost_seconds",
        "1e6 * hpt_source_usable{clock=\"a\"}",
        "max by (instance) (node_load1)",
        "instance:hpt_x:max > 1",
    ] {
        assert!(!unpromised(query, &promised).is_empty(), "{query}");
    }
    assert_eq!(
        unpromised("(hpt_source_usable{source!=\"tsc\", instance=~\"a\"} == 1)", &promised),
        Vec::<String>::new()
    );
}

/// Returns the calls of rustup by `scripts/build-arm` if rustup lists these toolchains, and these
/// components of its nightly.
fn asked_of_rustup(toolchains: &str, components: &str) -> String {
    // A shell function replaces rustup. It logs its arguments to standard error, because the script
    // captures standard output.
    let script = format!(
        "rustup() {{ echo \"asked: $*\" >&2; case \"$*\" in 'toolchain list') echo '{toolchains}' ;; 'component list'*) echo '{components}' ;; esac; }}
        eval \"$(sed -n '/^install_rust() {{/,/^}}/p' '{}')\"
        install_rust armv6",
        project().join("scripts/build-arm").display()
    );
    let output = Command::new("bash").args(["-euc", &script]).output().expect("bash is there");
    let asked = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && asked.contains("asked: toolchain list"), "{asked}");
    asked
}

#[test]
fn an_installed_nightly_toolchain_is_not_updated() {
    let installs = "toolchain install nightly";
    let fresh = asked_of_rustup("stable-x86_64-unknown-linux-gnu (default)", "");
    assert!(fresh.contains(installs), "{fresh}");
    let whole = asked_of_rustup("nightly-x86_64-unknown-linux-gnu", "rust-src");
    assert!(!whole.contains(installs) && !whole.contains("component add"), "{whole}");
    let partial = asked_of_rustup("nightly-x86_64-unknown-linux-gnu", "rustc-x86_64-unknown-linux-gnu");
    assert!(!partial.contains(installs) && partial.contains("component add rust-src"), "{partial}");
}
