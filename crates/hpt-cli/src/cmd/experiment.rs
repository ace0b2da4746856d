//! `hpt experiment`: published measurements, made on this machine, beside what was published.

use std::{
    cell::{Cell as Shared, RefCell},
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Args, builder::PossibleValuesParser};
use hpt_core::{
    realtime::{Conduct, allowed_cpus},
    state::{Binding, Locked, StateError, Store},
};
use serde::{Deserialize, Serialize};

use crate::{
    arguments::{CpuChoice, after_help, calls, cpu_choice, without_metrics},
    context::Context,
    document_head::Head,
    exit::{Failure, causes, say},
    experiments::{Measured, Outlook, Part, RECIPES, Recipe, Run, Standing, Ways, decimals, in_one_line},
    kernel_clocksources::Comparison,
    output::{Align, Answer, Block, Cell, Column, Document, Table, chart, progress::Progress, remarks, rounded},
    sampling::{
        cpu_absences,
        realtime::{Alone, Settings, ThreadOptions},
    },
};

const EXAMPLES: &str = "  \
  hpt experiment                       what there is, and how long it takes
  hpt experiment pairs --short         one of them, in seconds
  hpt experiment all --short
  sudo hpt experiment pairs isolated-core --resume
  sudo hpt experiment isolated-core --no-throttling --no-turbo --cpu 3
  sudo hpt experiment clock-sources --all-clock-sources";

/// What every file of a finished part in the state folder begins with, and what the lock is called by.
const STATE: &str = "experiment";
const BY: &str = "hpt experiment";
/// Drawing is not for every sample.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Repeat a published measurement on this machine, and print its figures beside the published ones
///
/// Without a name: what there is. Each part is kept as soon as it is finished, and the long ones now and then, so that `--resume` goes on where an earlier run of this boot was
/// ended.
#[derive(Debug, Args)]
#[command(after_help = after_help(EXAMPLES), args(without_metrics()))]
pub(crate) struct Arguments {
    /// Names of experiments, or `all`
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(RECIPES.iter().map(|recipe| recipe.name).chain(["all"])))]
    names: Vec<String>,
    /// Make each in seconds: fewer samples, which the result says
    #[arg(long, conflicts_with = "repeat")]
    short: bool,
    /// Take so many samples in place of as many as were published; 1e4 is understood
    #[arg(long, value_name = "N", value_parser = calls)]
    repeat: Option<u64>,
    /// Take parts that were finished before, in this boot, in the same way and with the same number of samples, as they were; go on with those that were ended
    #[arg(long, requires = "names")]
    resume: bool,
    /// Run on this CPU; `any` does not pin [default: the highest allowed]
    #[arg(long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    #[command(flatten)]
    alone: Alone,
    /// Machine: make clock-sources under each clock source that the kernel offers, one after the other, and put the first one back; asks before
    #[arg(long, requires = "names")]
    all_clock_sources: bool,
    /// Do not ask
    #[arg(long, requires = "all_clock_sources")]
    yes: bool,
    /// Where finished parts are kept [default: XDG_STATE_HOME/hpt, else ~/.local/state/hpt]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Where settings of the machine are written down before they are changed, for `hpt restore` [default: /run/hpt]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

/// A part that was finished, or as far as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Finished {
    count: u64,
    made: u64,
    /// What is to be the same for it to be the same measurement.
    conditions: Vec<String>,
    figures: Vec<Measured>,
}

impl Finished {
    /// Whether it is the same measurement, of which less was made.
    fn is_less_than(&self, kept: &Self) -> bool {
        self.count == kept.count && self.conditions == kept.conditions && self.made < kept.made
    }
}

/// A figure beside the published one.
#[derive(Debug, Serialize)]
struct Row {
    experiment: &'static str,
    what: String,
    unit: String,
    published: Option<f64>,
    measured: Option<f64>,
    state: Standing,
    samples: u64,
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
    distribution: Vec<(f64, u64)>,
    how: String,
}

/// An experiment, and how it was made.
#[derive(Debug, Serialize)]
struct Made {
    name: &'static str,
    title: &'static str,
    published_in: &'static str,
    hardware: &'static str,
    differs: &'static str,
    parts: Vec<MadePart>,
}

#[derive(Debug, Serialize)]
struct MadePart {
    name: &'static str,
    /// Without --short and --repeat, and here.
    full_count: u64,
    count: u64,
    /// Of `count`, by an earlier run.
    taken_up: u64,
    /// Of `count`, as far as its figures came.
    #[serde(skip)]
    reached: u64,
    expected_s: f64,
    state: &'static str,
}

#[derive(Debug, Serialize)]
struct Data {
    #[serde(flatten)]
    head: Head,
    cpu: Option<usize>,
    thread: Option<Settings>,
    interrupted: bool,
    experiments: Vec<Made>,
    results: Vec<Row>,
    notes: Vec<String>,
}

/// A part that is to be made.
struct Planned<'a> {
    part: &'static Part,
    count: u64,
    conditions: &'a [String],
    before: Option<Finished>,
}

impl Planned<'_> {
    /// How many are still to be made.
    fn left(&self) -> u64 {
        self.count - self.before.as_ref().map_or(0, |before| before.made)
    }

    fn expected(&self) -> Duration {
        expected(self.part, self.left())
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    let recipes = arguments.recipes();
    if recipes.is_empty() {
        context.signals.listen()?;
        return Ok(list(arguments, context));
    }
    // Before this thread is pinned: then it may run on one only.
    let mut ways = arguments.ways(&recipes, context)?;
    let held = ThreadOptions::on(arguments.cpu).hold(context, Conduct::Waits, BY)?;
    ways.cpu = held.cpu();
    if arguments.changes_the_machine() { context.signals.listen_until_the_end() } else { context.signals.listen() }?;
    let thread = held.settings();
    let of_all = conditions(context, &thread, held.cpu());
    let warnings = RefCell::new(Vec::new());
    let conditions = |recipe: &Recipe| {
        let outlook = recipe.way.map_or_else(|| Ok(Outlook::default()), |way| way(context, &ways))?;
        outlook.notes.iter().for_each(|note| say(note));
        warnings.borrow_mut().extend(outlook.warnings);
        Ok([of_all.clone(), outlook.conditions].concat())
    };
    let conditions = recipes.iter().map(|recipe| conditions(recipe)).collect::<Result<Vec<_>, Failure>>()?;

    let kept = Kept::open(arguments, context);
    let plans = recipes.iter().zip(&conditions);
    let plans: Vec<(&Recipe, Vec<Planned<'_>>)> =
        plans.map(|(&recipe, conditions)| (recipe, arguments.plan(recipe, conditions, &kept))).collect();
    // Before an hour has passed, and not after.
    kept.tell(say);
    let expected: Duration = plans.iter().flat_map(|(_, parts)| parts).map(Planned::expected).sum();
    let progress = Progress::new(1, expected);
    let (mut made, mut rows, mut passed) = (Vec::new(), Vec::new(), Duration::ZERO);
    let mut presence = cpu_absences::Parts::of(held.cpu(), context);
    for (recipe, plan) in plans {
        progress.name(recipe.name);
        let (mut parts, mut figures, mut failed) = (Vec::new(), Vec::new(), None);
        for planned in plan {
            let shown = Shared::new(Instant::now());
            let report = |done: f64| {
                if shown.get().elapsed() >= DRAW_EVERY {
                    shown.set(Instant::now());
                    let passed = passed + planned.expected().mul_f64(done.clamp(0.0, 1.0));
                    progress.at_fraction(passed.as_secs_f64() / expected.as_secs_f64().max(1e-9));
                }
            };
            let taken_up = planned.count - planned.left();
            let first = figures.len();
            let state = if planned.left() == 0 {
                figures.extend(planned.before.iter().flat_map(|before| before.figures.iter().cloned()));
                "taken up"
            } else if context.interrupted() {
                figures.extend(planned.before.iter().flat_map(|before| before.figures.iter().cloned()));
                "not begun"
            } else {
                let keep = |made, figures| {
                    kept.keep(recipe, &planned, made, figures);
                    kept.tell(|note| progress.aside(|| say(note)));
                };
                let before = planned.before.as_ref().map_or(&[][..], |before| &before.figures);
                let run = Run {
                    context,
                    ways: &ways,
                    count: planned.left(),
                    before,
                    progress: &report,
                    keep: &|done, figures| keep(taken_up + done, figures),
                    warnings: &warnings,
                };
                let outcome = (planned.part.measure)(&run);
                presence.end(format!("{} {}", recipe.name, planned.part.name));
                match outcome {
                    Ok(found) => {
                        figures.extend(found.iter().cloned());
                        if context.interrupted() {
                            "interrupted"
                        } else {
                            keep(planned.count, found);
                            "measured"
                        }
                    }
                    // What others measured is not lost for it.
                    Err(failure) => {
                        failed = Some(in_one_line(&failure));
                        figures.extend_from_slice(before);
                        "failed"
                    }
                }
            };
            passed += planned.expected();
            parts.push(MadePart {
                name: planned.part.name,
                full_count: planned.part.count,
                count: planned.count,
                taken_up,
                reached: figures[first..].iter().map(|figure| figure.samples).max().unwrap_or(0),
                expected_s: rounded(self::expected(planned.part, planned.count).as_secs_f64()),
                state,
            });
        }
        rows.extend(beside(recipe, figures, failed.as_deref()));
        made.push(of(recipe, parts));
    }
    drop(progress);
    let mut warnings = warnings.into_inner();
    warnings.extend(held.end());
    let notes = [context.notes(), kept.notes.take(), presence.notes(), warnings.clone()].concat();
    let data = data(context, (ways.cpu, Some(thread)), made, rows, notes);
    let answer = answer(&data, &warnings);
    let blocks = page(&data);
    Ok(Document { answer, warnings, ..Document::new(&data, "results", blocks) })
}

/// No, where this machine does not show all that was published of such machines.
fn answer(data: &Data, warnings: &[String]) -> Answer {
    let measured = data.results.iter().any(|row| row.state == Standing::Measured);
    let missing = data.results.iter().any(|row| row.state == Standing::Missing);
    match (measured && warnings.is_empty(), missing) {
        (false, _) => Answer::Unknown,
        (true, true) => Answer::No,
        (true, false) => Answer::Yes,
    }
}

fn expected(part: &Part, count: u64) -> Duration {
    Duration::from_secs_f64(part.each.as_secs_f64() * count as f64)
}

/// What makes any part another measurement where it is another.
fn conditions(context: &Context, thread: &Settings, cpu: Option<usize>) -> Vec<String> {
    let source = context.host.clock_sources().current.unwrap_or_default();
    vec![
        format!("hpt {}", env!("CARGO_PKG_VERSION")),
        format!("clock source {source}"),
        thread.words(cpu),
        format!("capabilities {}", capabilities(context)),
    ]
}

/// What the process may do, as the kernel tells it: by another right, another class.
fn capabilities(context: &Context) -> String {
    let status = context.host.read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status).into_owned();
    status.lines().find_map(|line| line.strip_prefix("CapEff:")).map_or_else(String::new, |set| set.trim().to_owned())
}

impl Arguments {
    fn recipes(&self) -> Vec<&'static Recipe> {
        let all = self.names.iter().any(|name| name == "all");
        let wanted = |recipe: &&&Recipe| all || self.names.iter().any(|name| name == recipe.name);
        RECIPES.iter().filter(wanted).copied().collect()
    }

    fn changes_the_machine(&self) -> bool {
        self.alone != Alone::default() || self.all_clock_sources
    }

    /// What is asked of the machine. Refused here where it is refused at all: before an hour has passed.
    fn ways(&self, recipes: &[&Recipe], context: &Context) -> Result<Ways, Failure> {
        let makes = |name: &str| recipes.iter().any(|recipe| recipe.name == name);
        if self.alone != Alone::default() && !makes("isolated-core") {
            return Err(Failure::Usage(
                "--no-throttling, --no-turbo and --governor go with the experiment isolated-core",
            ));
        }
        if self.all_clock_sources && !makes("clock-sources") {
            return Err(Failure::Usage("--all-clock-sources goes with the experiment clock-sources"));
        }
        if self.alone.no_throttling && allowed_cpus().len() <= 1 {
            return Err(Failure::Usage(
                "a real-time thread that never waits, on the only CPU and without throttling, would stop the machine; leave out --no-throttling",
            ));
        }
        let journal = self.journal.as_deref();
        let meant = |()| Comparison::asked(context, &[], self.yes, journal);
        Ok(Ways {
            cpu: None,
            alone: self.alone.clone(),
            clock_sources: self.all_clock_sources.then_some(()).map(meant).transpose()?,
            journal: self.journal.clone(),
        })
    }

    fn count(&self, part: &Part) -> u64 {
        if self.short { part.short } else { self.repeat.unwrap_or(part.count) }
    }

    fn plan<'a>(&self, recipe: &'static Recipe, conditions: &'a [String], kept: &Kept) -> Vec<Planned<'a>> {
        let planned = |part| {
            let mut planned = Planned { part, count: self.count(part), conditions, before: None };
            planned.before = kept.find(recipe, &planned);
            planned
        };
        recipe.parts.iter().map(planned).collect()
    }
}

/// What was finished, and where it is kept: a file for each part, so that two who measure different ones do not take each other's away.
struct Kept {
    store: Option<(Store, Binding)>,
    resume: bool,
    /// Somebody else measures at the same time, where this is not held.
    _alone: Option<Locked>,
    notes: RefCell<Vec<String>>,
    /// How many of these were told.
    told: Shared<usize>,
}

impl Kept {
    /// That nothing can be kept is told and keeps nobody from measuring.
    fn open(arguments: &Arguments, context: &Context) -> Self {
        let mut kept = Self {
            store: None,
            resume: arguments.resume,
            _alone: None,
            notes: RefCell::default(),
            told: Shared::new(0),
        };
        if context.is_of_a_part() {
            return kept;
        }
        let opened = context.store(arguments.store.as_deref()).and_then(|store| Ok((store, context.binding()?)));
        let opened = opened.and_then(|(store, binding)| Ok((store.lock(STATE)?, store, binding)));
        match opened {
            Ok((alone, store, binding)) => {
                if alone.is_none() {
                    kept.note("another hpt experiment was measuring when this one began: each may have made the other late".to_owned());
                }
                (kept._alone, kept.store) = (alone, Some((store, binding)));
            }
            Err(Failure::State(error)) => kept.note(format!("finished parts are not kept: {}", causes(&error))),
            Err(Failure::NoBootId) => kept.note(
                "finished parts are not kept: they are bound to this boot, and /proc/sys/kernel/random/boot_id cannot be read; mount /proc".to_owned(),
            ),
            Err(failure) => kept.note(format!("finished parts are not kept: {}", causes(&failure))),
        }
        kept
    }

    fn note(&self, note: String) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Tells the notes that were not told yet.
    fn tell(&self, how: impl Fn(&str)) {
        let notes = self.notes.borrow();
        notes[self.told.replace(notes.len())..].iter().for_each(|note| how(note));
    }

    /// What an earlier run made of the same measurement.
    fn find(&self, recipe: &Recipe, planned: &Planned<'_>) -> Option<Finished> {
        let Planned { part, count, conditions, .. } = *planned;
        let (store, binding) = self.store.as_ref().filter(|_| self.resume)?;
        let name = format!("{}, {}", recipe.name, part.name);
        let payload = match store.load(&file_of(recipe, part, count), binding) {
            Ok(payload) => payload,
            Err(StateError::Missing { .. }) => return None,
            Err(error) => {
                self.note(format!("{name} is made anew: {}", causes(&error)));
                return None;
            }
        };
        let Ok(found) = serde_json::from_slice::<Finished>(&payload) else {
            self.note(format!("{name} is made anew: what was kept of it was written by another version of hpt"));
            return None;
        };
        if found.conditions != conditions {
            let only_in = |one: &[String], other: &[String]| {
                let only: Vec<_> = one.iter().filter(|condition| !other.contains(condition)).cloned().collect();
                only.join("; ")
            };
            let (then, now) = (only_in(&found.conditions, conditions), only_in(conditions, &found.conditions));
            self.note(format!("{name} is made anew: it was made in another way (then {then}; now {now})"));
            return None;
        }
        let is_it = found.count == count && found.made > 0 && found.made <= count;
        (is_it && (found.made == count || part.continues)).then_some(found)
    }

    fn keep(&self, recipe: &Recipe, planned: &Planned<'_>, made: u64, figures: Vec<Measured>) {
        let Some((store, binding)) = &self.store else { return };
        let purpose = file_of(recipe, planned.part, planned.count);
        let name = format!("{}, {}", recipe.name, planned.part.name);
        let finished = Finished { count: planned.count, made, conditions: planned.conditions.to_vec(), figures };
        match store.load(&purpose, binding) {
            // What cannot be read may be good.
            Err(error @ StateError::Unreadable { .. }) => {
                return self.note(format!("{name} is not kept: {}", causes(&error)));
            }
            Ok(payload) if serde_json::from_slice(&payload).is_ok_and(|kept| finished.is_less_than(&kept)) => {
                return self
                    .note(format!("{name} is not kept: there is more of an earlier run, with which --resume goes on"));
            }
            _ => {}
        }
        let payload = serde_json::to_vec(&finished).expect("numbers and names have a JSON form");
        if let Err(error) = store.save(&purpose, binding, &payload) {
            self.note(format!("finished parts are not kept: {}", causes(&error)));
        }
    }
}

/// The file that a part is kept in; of another length it is another.
fn file_of(recipe: &Recipe, part: &Part, count: u64) -> String {
    let name = part.name.replace('µ', "u").replace(' ', "-");
    format!("{STATE}-{}-{name}-{count}", recipe.name)
}

/// Every published figure with what was measured of it, and then what was measured besides.
fn beside(recipe: &'static Recipe, measured: Vec<Measured>, failed: Option<&str>) -> Vec<Row> {
    let row = |published: Option<f64>, figure: Measured| Row {
        experiment: recipe.name,
        what: figure.what,
        unit: figure.unit,
        published,
        measured: figure.value,
        state: figure.standing,
        samples: figure.samples,
        p50: figure.p50,
        p99: figure.p99,
        max: figure.max,
        distribution: figure.distribution,
        how: figure.how,
    };
    let mut rows = Vec::new();
    let mut left = measured;
    for figure in recipe.published {
        let found = left.iter().position(|one| one.what == figure.what).map(|place| left.remove(place));
        let absent = || match failed {
            Some(why) => Measured::missing(figure.what, figure.unit, why),
            None => Measured {
                standing: Standing::NotMade,
                ..Measured::missing(figure.what, figure.unit, "not made: hpt did not get so far")
            },
        };
        rows.push(row(Some(figure.value), found.unwrap_or_else(absent)));
    }
    rows.extend(left.into_iter().map(|figure| row(None, figure)));
    rows
}

const fn of(recipe: &'static Recipe, parts: Vec<MadePart>) -> Made {
    Made {
        name: recipe.name,
        title: recipe.title,
        published_in: recipe.published_in,
        hardware: recipe.hardware,
        differs: recipe.differs,
        parts,
    }
}

fn data(
    context: &Context,
    (cpu, thread): (Option<usize>, Option<Settings>),
    experiments: Vec<Made>,
    mut results: Vec<Row>,
    mut notes: Vec<String>,
) -> Data {
    let head = Head::of("experiment", &context.host);
    if let Some(by) = head.machine.emulator() {
        // Each by itself, because rows are taken apart.
        let measured = results.iter_mut().filter(|row| row.state == Standing::Measured);
        measured.for_each(|row| row.how.push_str(&format!("; emulated by {by}")));
        if thread.is_some() {
            notes.push(format!("emulated by {by}: how long things take is the emulator's doing"));
        }
    }
    Data { head, cpu, thread, interrupted: context.interrupted(), experiments, results, notes }
}

/// What there is, with the published figures.
fn list(arguments: &Arguments, context: &Context) -> Document {
    let part = |part: &'static Part| MadePart {
        name: part.name,
        full_count: part.count,
        count: arguments.count(part),
        taken_up: 0,
        reached: 0,
        expected_s: rounded(expected(part, arguments.count(part)).as_secs_f64()),
        state: "not begun",
    };
    let made = RECIPES.iter().map(|recipe| of(recipe, recipe.parts.iter().map(part).collect())).collect();
    let rows = RECIPES.iter().flat_map(|recipe| beside(recipe, Vec::new(), None)).collect();
    let data = data(context, (None, None), made, rows, context.notes());
    let columns = vec![
        Column("name", Align::Left),
        Column("takes about", Align::Right),
        Column("in short", Align::Right),
        Column("what it measures, and where and on what that was published", Align::Left),
    ];
    let rows = RECIPES.iter().map(|recipe| {
        let time = |count: &dyn Fn(&Part) -> u64| {
            let sum: Duration = recipe.parts.iter().map(|part| expected(part, count(part))).sum();
            humantime::format_duration(Duration::from_secs(sum.as_secs().max(1))).to_string()
        };
        vec![
            Cell::strong(recipe.name),
            Cell::plain(time(&|part| arguments.repeat.unwrap_or(part.count))),
            Cell::plain(time(&|part| part.short)),
            Cell::plain(format!("{}; {}: {}", recipe.title, recipe.published_in, recipe.hardware)),
        ]
    });
    let how = "`hpt experiment NAME...` makes them, `hpt experiment all` all of them; --short in seconds. Ctrl-C prints what is there, and --resume goes on.";
    let blocks = vec![Block::Table(Table { columns, rows: rows.collect() }), Block::Text(how.to_owned())];
    Document::new(&data, "results", blocks)
}

/// About three figures, and more of a large one where the published one beside it has more.
fn figure(value: Option<f64>, beside: Option<f64>) -> Cell {
    let Some(value) = value else { return Cell::faint("-") };
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => {
            let beside = beside.map(|beside| beside.to_string()).unwrap_or_default();
            beside.split_once('.').map_or(0, |(_, decimals)| decimals.len())
        }
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size => decimals(10_f64.powf(size.log10().floor() - 2.0)),
    };
    Cell::plain(format!("{value:.decimals$}"))
}

/// How many samples are below each of 1, 2, 3, 5, 7, 10, 20, …, and not below the one before; first those below a whole unit.
fn classes(distribution: &[(f64, u64)]) -> String {
    let mut classes: Vec<(f64, u64)> = Vec::new();
    for &(length, samples) in distribution {
        let power = 10_f64.powf(length.max(1.0).log10().floor());
        let ends = [1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0].map(|digit| rounded(digit * power));
        let end = ends.into_iter().find(|&end| end > length).unwrap_or(f64::INFINITY);
        match classes.last_mut().filter(|(last, _)| *last >= end) {
            Some((_, all)) => *all += samples,
            None => classes.push((end, samples)),
        }
    }
    let classes = classes.into_iter().map(|(end, samples)| format!("< {end}: {samples}"));
    classes.collect::<Vec<_>>().join(", ")
}

/// A letter for each way in which figures came about.
fn letter(place: usize) -> String {
    let letters: Vec<char> = ('a'..='z').collect();
    match place / letters.len() {
        0 => letters[place].to_string(),
        round => format!("{}{round}", letters[place % letters.len()]),
    }
}

fn page(data: &Data) -> Vec<Block> {
    let mut blocks = Vec::new();
    for made in &data.experiments {
        let title = vec![Cell::plain(format!("{} ({}; {})", made.title, made.published_in, made.hardware))];
        blocks.push(Block::Section(made.name.to_owned(), vec![title]));
        let columns = ["", "unit", "published", "here", "p50", "p99", "max", "by"];
        let mut columns: Vec<_> = columns.map(|name| Column(name, Align::Right)).to_vec();
        columns[0] = Column("", Align::Left);
        let rows: Vec<&Row> = data.results.iter().filter(|row| row.experiment == made.name).collect();
        let mut hows: Vec<&str> = Vec::new();
        for row in &rows {
            if !hows.contains(&row.how.as_str()) {
                hows.push(&row.how);
            }
        }
        let cells = rows.iter().map(|row| {
            let by = hows.iter().position(|how| *how == row.how).map_or_else(String::new, letter);
            vec![
                Cell::plain(row.what.clone()),
                Cell::plain(row.unit.clone()),
                Cell::or_dash(row.published.map(|value| value.to_string())),
                figure(row.measured, row.published),
                figure(row.p50, None),
                figure(row.p99, None),
                figure(row.max, None),
                Cell::plain(by),
            ]
        });
        blocks.push(Block::Table(Table { columns, rows: cells.collect() }));
        let hows = hows.iter().enumerate().map(|(place, how)| vec![Cell::plain(format!("{}: {how}", letter(place)))]);
        blocks.push(Block::Section("By, or why not".to_owned(), hows.collect()));
        let spread = rows.iter().filter(|row| !row.distribution.is_empty());
        let spread =
            spread.map(|row| vec![Cell::plain(format!("{} ({}): {}", row.what, row.unit, classes(&row.distribution)))]);
        let spread: Vec<_> = spread.collect();
        if !spread.is_empty() {
            blocks.push(Block::Section("How many were that long".to_owned(), spread));
        }
        blocks.push(Block::Text(format!(
            "Samples: {}. What differs: {}. Here: {}.",
            samples(&made.parts),
            made.differs,
            here(data)
        )));
    }
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// How many were asked for, and what came of it.
fn samples(parts: &[MadePart]) -> String {
    let parts = parts.iter().map(|part| {
        let fewer =
            if part.count == part.full_count { String::new() } else { format!(" in place of {}", part.full_count) };
        let before = if part.taken_up > 0 && part.taken_up < part.count {
            format!(", {} of them by an earlier run", part.taken_up)
        } else {
            String::new()
        };
        let reached = if part.state == "interrupted" { format!(" at {}", part.reached) } else { String::new() };
        format!("{}: {}{fewer}, {}{reached}{before}", part.name, part.count, part.state)
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// What it was measured on.
fn here(data: &Data) -> String {
    let thread = data.thread.as_ref().map(|thread| format!("{}; ", thread.words(data.cpu))).unwrap_or_default();
    let machine = &data.head.machine;
    // What emulates it is in its line.
    let runs_it =
        if machine.emulator().is_some() { None } else { chart::runs_it(None, machine.hypervisor(), machine.board()) };
    let runs_it = runs_it.map(|runs_it| format!(", {runs_it}")).unwrap_or_default();
    format!("{thread}{}{runs_it}", machine.line())
}

#[cfg(test)]
mod tests {
    use super::{Data, MadePart, Standing, beside, classes, figure, letter, of, page};
    use crate::{
        experiments::{Measured, RECIPES},
        golden,
        output::Document,
        sampling::realtime::tests::example,
    };

    #[test]
    fn a_run_is_printed_to_the_letter() {
        let recipe = RECIPES.iter().find(|recipe| recipe.name == "period").expect("it is listed");
        let measured = vec![
            Measured {
                p50: Some(20.0),
                distribution: vec![(19.5, 150), (20.0, 49), (2_500.0, 1)],
                ..Measured::figure("100 µs, system's clock", 31.25, "ns", 200, "monotonic")
            },
            Measured::missing(
                "100 µs, cycle counter",
                "ns",
                "there is no counter that programs may read; see hpt probe",
            ),
            Measured::figure("something else", 1_234.5, "ns", 200, "by itself"),
        ];
        let part = |name, count, state| MadePart {
            name,
            full_count: 1_000,
            count,
            taken_up: if state == "taken up" { count } else { 0 },
            reached: if state == "interrupted" { 70 } else { 0 },
            expected_s: 0.04,
            state,
        };
        let data = Data {
            head: golden::head("experiment"),
            cpu: Some(1),
            thread: Some(example()),
            interrupted: true,
            experiments: vec![of(recipe, vec![part("100 µs", 200, "taken up"), part("1 ms", 1_000, "interrupted")])],
            results: beside(recipe, measured, None),
            notes: vec!["a note".to_owned()],
        };
        golden::assert("experiment", &Document::new(&data, "results", page(&data)));
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let recipe = RECIPES.iter().find(|recipe| recipe.name == "period").expect("it is listed");
        let failed = beside(recipe, Vec::new(), Some("it takes root"));
        assert!(failed.iter().all(|row| row.state == Standing::Missing && row.how == "it takes root"));
        let not_made = beside(recipe, Vec::new(), None);
        assert!(not_made.iter().all(|row| row.state == Standing::NotMade && !row.how.is_empty()));
    }

    #[test]
    fn samples_are_in_classes_of_one_digit() {
        assert_eq!(classes(&[]), "");
        assert_eq!(
            classes(&[(0.0, 1), (0.043, 2), (1.0, 3), (1.999, 4), (2.0, 5), (9.9, 6), (5_000.0, 7)]),
            "< 1: 3, < 2: 7, < 3: 5, < 10: 6, < 7000: 7"
        );
        assert_eq!([0, 25, 26].map(letter), ["a", "z", "a1"]);
    }

    #[test]
    fn figures_have_about_three_digits() {
        let shown: Vec<_> = [0.016, 9.481, 61.985, 485.0, 0.007_427, 0.0]
            .into_iter()
            .map(|value| figure(Some(value), None).0)
            .collect();
        assert_eq!(shown, ["0.0160", "9.48", "62.0", "485", "0.00743", "0"]);
        assert_eq!(figure(None, None).0, "-");
        let beside = [(100.0391, 100.383), (0.0321, 0.806_555), (485.4, 288.0)];
        assert_eq!(beside.map(|(value, beside)| figure(Some(value), Some(beside)).0), ["100.039", "0.0321", "485"]);
    }
}
