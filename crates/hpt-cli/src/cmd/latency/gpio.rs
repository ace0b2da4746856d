//! `hpt latency gpio`: how long an edge on a GPIO line takes until a program knows; and which lines there are.

use std::{
    io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use clap::{Args, ValueEnum};
use hpt_core::{
    Instant, PosixClock, PosixId, SourceId, TimeSource,
    gpio::{Chip, GpioError, Input, LineName, LineState, Output, chips},
    measure::{Crossing, EdgeCounts, Heard, Lateness, Listening, LoopBack, Wake, gpio_edges},
    realtime::{Conduct, PinWatch},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    arguments::after_help,
    context::Context,
    document_head::Head,
    exit::{Failure, causes},
    output::{
        Align, Answer, Block, Cell, Column, Document, Table, Tone, chart_option::PictureOption,
        latency_files::OfThread, remarks, rounded, short_time,
    },
    sampling::{
        absences::{self, Away},
        cpu_options::NOTHING_LEFT,
        distribution::{Figures, bars},
        extent::Extent,
        raw_samples::{Backlog, Raw, RawSample},
        realtime::{Settings, ThreadOptions},
        result_files::{Keeping, ended_by},
        run::{Shared, watch},
        threads,
    },
};

const EXAMPLES: &str = "  \
  hpt latency gpio --list                      chips, lines, and who has them
  hpt latency gpio --out GPIO22 --in GPIO23    every millisecond, 10 s
  hpt latency gpio --chip gpiochip0 --out 22 --in 23 --fifo 80 --cpu 3 --awake \\
    --duration 18h --write line=counts";

/// The kinds of its documents.
const KIND: &str = "latency-gpio";
const LIST: &str = "latency-gpio-list";
const BY: &str = "hpt latency gpio";
const RAW: &str = "Also write every edge to a file: the number of the CPU, when the line was driven, and the three figures, in nanoseconds";
/// What the kernel is told of who has a line.
const CONSUMER: &str = "hpt";
/// After so many edges in a row that did not come, no more are waited for.
const GIVE_UP_AFTER: u32 = 3;

/// How long an edge on a GPIO pin takes until a program knows of it
///
/// An output line is driven to its other level in every interval. An input line that is wired to it gives an interrupt, which the kernel stamps; a program that
/// waits for it is woken and reads it. Both lines are left as they were. A line that somebody else has is refused.
#[derive(Debug, Args)]
#[command(after_help = after_help(EXAMPLES), mut_arg("raw", |raw| raw.help(RAW)))]
pub(crate) struct Arguments {
    /// Drive this line: by its name (GPIO22), its number (22), or with its chip (gpiochip0:22)
    #[arg(long, value_name = "LINE", required_unless_present = "list")]
    out: Option<LineName>,
    /// Listen to this line, which is wired to the other
    #[arg(long = "in", value_name = "LINE", required_unless_present = "list")]
    input: Option<LineName>,
    /// The chip of lines that are given without one: gpiochip0, /dev/gpiochip0, or what its driver calls it [default: the only one]
    #[arg(long, value_name = "CHIP")]
    chip: Option<String>,
    /// List the chips, their lines and who has them, and touch none
    #[arg(long, conflicts_with_all = ["out", "input"])]
    list: bool,
    /// Wait for an edge in the kernel, by poll(2), or read again and again
    #[arg(long, value_enum, value_name = "HOW", default_value = "poll")]
    listen: Listen,
    /// Wait so long for an edge, and count it as lost then
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = timeout)]
    timeout: Duration,
    #[command(flatten)]
    extent: Extent,
    /// Draw this figure, write it to files, and hold it against --break-above
    #[arg(long, value_enum, value_name = "FIGURE", default_value = "whole")]
    figure: Figure,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    thread: ThreadOptions,
    #[command(flatten)]
    pub(crate) picture: PictureOption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Listen {
    Poll,
    Spin,
}

/// A part of an edge's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// From before the line was driven until the edge was stamped
    SetToEdge,
    /// From there until the program had read it
    EdgeToProgram,
    /// Both
    Whole,
}

impl Figure {
    const ALL: [Self; 3] = [Self::SetToEdge, Self::EdgeToProgram, Self::Whole];

    /// As it stands beside the others in a table.
    const fn head(self) -> &'static str {
        match self {
            Self::SetToEdge => "set to edge",
            Self::EdgeToProgram => "to program",
            Self::Whole => "whole",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::SetToEdge => "set-to-edge",
            Self::EdgeToProgram => "edge-to-program",
            Self::Whole => "whole",
        }
    }

    fn of(self, crossing: &Crossing) -> Option<u64> {
        match self {
            Self::SetToEdge => crossing.set_to_edge_ns(),
            Self::EdgeToProgram => crossing.edge_to_program_ns(),
            Self::Whole => Some(crossing.whole_ns()),
        }
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(3_600);
    const SHORTEST: Duration = Duration::from_micros(100);
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 100ms or 1s"))?;
    if (SHORTEST..=LONGEST).contains(&time) { Ok(time) } else { Err("from 100us to 1h".to_owned()) }
}

/// A line, for programs.
#[derive(Clone, Debug, Serialize)]
struct Place {
    chip: String,
    label: String,
    line: u32,
    name: Option<String>,
}

impl Place {
    fn of(chip: &Chip, line: &LineState) -> Self {
        Self {
            chip: chip.name().to_owned(),
            label: chip.label().to_owned(),
            line: line.offset,
            name: line.name.clone(),
        }
    }

    fn words(&self) -> String {
        let place = format!("{}:{}", self.chip, self.line);
        self.name.as_ref().map_or_else(|| place.clone(), |name| format!("{name} ({place})"))
    }
}

/// One figure, for programs.
#[derive(Debug, Serialize)]
struct Row {
    figure: &'static str,
    #[serde(flatten)]
    figures: Figures,
    #[serde(skip)]
    head: &'static str,
}

#[derive(Debug, Serialize)]
struct Data {
    #[serde(flatten)]
    head: Head,
    out: Place,
    r#in: Place,
    listen: &'static str,
    interval_ns: u64,
    timeout_ns: u64,
    cpu: Option<usize>,
    thread: Settings,
    source: SourceId,
    look_ns: u64,
    step_ns: Option<u64>,
    began: String,
    elapsed_s: f64,
    lost: u64,
    strange: u64,
    dropped: u64,
    elsewhen: u64,
    figure: &'static str,
    broke_at_ns: Option<u64>,
    interrupted: bool,
    away: Vec<Away>,
    results: Vec<Row>,
    notes: Vec<String>,
}

/// The three figures of all edges.
#[derive(Clone, Debug)]
struct Three([Lateness; 3]);

/// An edge, and how many deadlines were left out before it.
#[derive(Clone, Copy, Debug)]
struct Sample {
    crossing: Crossing,
    missed: u64,
}

impl Three {
    fn new() -> Self {
        Self(Figure::ALL.map(|_| Lateness::new()))
    }

    fn record(&mut self, sample: Sample) {
        for (lateness, figure) in self.0.iter_mut().zip(Figure::ALL) {
            if let Some(ns) = figure.of(&sample.crossing) {
                let mut wake = Wake::new(Instant::from_nanoseconds(sample.crossing.set_ns), ns);
                wake.missed = sample.missed;
                lateness.record(wake);
            }
        }
    }

    fn of(&self, figure: Figure) -> &Lateness {
        let [set_to_edge, edge_to_program, whole] = &self.0;
        match figure {
            Figure::SetToEdge => set_to_edge,
            Figure::EdgeToProgram => edge_to_program,
            Figure::Whole => whole,
        }
    }
}

impl RawSample for Sample {
    fn text(&self) -> String {
        let figure = |figure: Figure| figure.of(&self.crossing).map_or_else(|| "-".to_owned(), |ns| ns.to_string());
        format!("{} {}", self.crossing.set_ns, Figure::ALL.map(figure).join(" "))
    }
}

/// What the thread that measured has to say.
struct Ended {
    settings: Settings,
    cpu: Option<usize>,
    counts: EdgeCounts,
    away: Vec<Away>,
    answer: io::Result<()>,
    warnings: Vec<String>,
}

impl Arguments {
    /// The kind of its document.
    pub(super) const fn kind(&self) -> &'static str {
        if self.list { LIST } else { KIND }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    let (Some(out), Some(input)) = (&arguments.out, &arguments.input) else {
        return Ok(list(context, arguments.chip.as_deref()));
    };
    // Both lines are to be put back.
    context.listen_until_the_end()?;
    let (conduct, listening) = match arguments.listen {
        Listen::Poll => (Conduct::Waits, Listening::Waiting),
        Listen::Spin => (Conduct::Spins, Listening::Spinning),
    };
    if conduct == Conduct::Spins && arguments.thread.leaves_nothing() {
        return Err(Failure::Usage(NOTHING_LEFT));
    }
    let chip = arguments.chip.as_deref();
    let (out_chip, out) = out.clone().or_on(chip).find()?;
    let (in_chip, input) = input.clone().or_on(chip).find()?;
    let (out_place, in_place) = (Place::of(&out_chip, &out), Place::of(&in_chip, &input));
    if (&out_place.chip, out.offset) == (&in_place.chip, input.offset) {
        return Err(GpioError::SameLine { line: out_place.words() }.into());
    }
    arguments.keeping.check()?;
    let raw = arguments.keeping.raw()?;
    let clock = PosixClock::open(&context.host, PosixId::Monotonic)
        .map_err(|reason| Failure::Source { name: "monotonic".to_owned(), reason })?;
    let source = clock.info().id.clone();
    // Nothing is driven before somebody listens.
    let input = Input::request(&in_chip, input.offset, CONSUMER)?;
    let output = Output::request(&out_chip, out.offset, CONSUMER)?;
    let mut wire = LoopBack::new(&output, &input, clock, listening);
    let (look_ns, step_ns) = wire.cost_of_looking();

    let head = Head::of(KIND, &context.host);
    let files = arguments.keeping.files(context);
    let shared = arguments.keeping.shared(1);
    let three = Mutex::new(Three::new());
    let drawn = |cpu: Option<usize>| {
        let lateness = three.lock().unwrap_or_else(PoisonError::into_inner).of(arguments.figure).clone();
        [OfThread { cpu, lateness }]
    };
    let cpu = Mutex::new(None);
    let start = Instant::now();
    shared.begin(start);
    let first_level = !output.first_level();
    let ended = thread::scope(|scope| {
        let work = || {
            let held = arguments.thread.hold(context, conduct, BY);
            let held = held.inspect_err(|_| shared.end())?;
            *cpu.lock().unwrap_or_else(PoisonError::into_inner) = held.cpu();
            let settings = held.settings();
            let mut presence = held.cpu().map(|cpu| PinWatch::of(cpu, &context.host));
            let what = (&three, raw.as_ref(), presence.as_mut());
            let (counts, answer) = measure(&mut wire, first_level, arguments, start, &shared, what);
            let away = presence.as_ref().map_or_else(Vec::new, Away::all_of);
            Ok::<_, Failure>(Ended { settings, cpu: held.cpu(), counts, away, answer, warnings: held.end() })
        };
        let measuring = threads::begin_together(scope, [work])?.pop().expect("one work, one thread");
        watch(
            (arguments.extent, 1, "edges"),
            context,
            &shared,
            || measuring.is_finished(),
            || {
                let results = rows(&three.lock().unwrap_or_else(PoisonError::into_inner));
                files.keep_metrics(&head, &json!({ "out": out_place, "in": in_place, "results": results }))?;
                files.write(&drawn(*cpu.lock().unwrap_or_else(PoisonError::into_inner)))
            },
        );
        shared.end_all(|| measuring.is_finished());
        measuring.join()
    });
    let elapsed = start.elapsed();
    let released = [output.release(), input.release()];
    let Ended { settings, cpu, counts, away, answer, mut warnings } = ended?;
    warnings.extend(answer.err().map(|error| format!("the lines cannot be used any more: {error}")));
    warnings.extend(released.iter().filter_map(|released| released.as_ref().err()).map(|error| causes(error)));
    warnings.extend(files.finish(raw, &drawn(cpu)));

    let three = three.into_inner().unwrap_or_else(PoisonError::into_inner);
    let results = rows(&three);
    let is_kept_away = conduct == Conduct::Spins && settings.is_before_interrupts();
    let wrong = what_was_wrong(&counts, (&out_place, &in_place), arguments.timeout, is_kept_away);
    // That nothing came is what was found out; that some did not is beside what was measured.
    warnings.extend((counts.lost > 0).then(|| wrong.first().cloned()).flatten());
    let mut notes = [context.notes(), settings.notes(), warnings.clone()].concat();
    notes.extend(wrong.into_iter().filter(|wrong| !warnings.contains(wrong)));
    notes.extend(absences::notes(&away, "edges that it heard there are not counted"));
    notes.extend(shared.unmarked());
    let answer = match (results.is_empty(), counts.lost > 0 || shared.broke_at_ns().is_some()) {
        (true, _) => Answer::Unknown,
        (false, true) => Answer::No,
        (false, false) if warnings.is_empty() => Answer::Yes,
        (false, false) => Answer::Unknown,
    };
    let whole_ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let data = Data {
        head,
        out: out_place,
        r#in: in_place,
        listen: match arguments.listen {
            Listen::Poll => "poll",
            Listen::Spin => "spin",
        },
        interval_ns: whole_ns(arguments.extent.interval),
        timeout_ns: whole_ns(arguments.timeout),
        cpu,
        thread: settings,
        source,
        look_ns,
        step_ns,
        began: files.began(),
        elapsed_s: rounded(elapsed.as_secs_f64()),
        lost: counts.lost,
        strange: counts.strange,
        dropped: counts.dropped,
        elsewhen: counts.elsewhen,
        figure: arguments.figure.name(),
        broke_at_ns: shared.broke_at_ns(),
        interrupted: context.interrupted(),
        away,
        results,
        notes,
    };
    let blocks = page(&data, three.of(arguments.figure));
    Ok(Document { answer, warnings, ..Document::new(&data, "results", blocks) })
}

/// Those of the three figures that have samples.
fn rows(three: &Three) -> Vec<Row> {
    let row = |figure: Figure| {
        Some(Row { figure: figure.name(), figures: Figures::of(three.of(figure))?, head: figure.head() })
    };
    Figure::ALL.into_iter().filter_map(row).collect()
}

/// The thread that drives the one line and waits for the other.
fn measure(
    wire: &mut LoopBack<'_>,
    level: bool,
    arguments: &Arguments,
    start: Instant,
    shared: &Shared,
    (three, raw, mut presence): (&Mutex<Three>, Option<&Raw<Sample>>, Option<&mut PinWatch<'_>>),
) -> (EdgeCounts, io::Result<()>) {
    // By itself: the thread that watches may not come to run before this one ends.
    let end = arguments.extent.end(start);
    let limit_ns = arguments.keeping.limit_ns();
    let mut backlog = Backlog::new(three, Three::record);
    let mut lines = raw.map(|raw| raw.of_thread(presence.as_ref().map(|presence| presence.cpu())));
    let (mut came, mut lost_in_a_row) = (0_u64, 0);
    let go_on = || shared.goes_on();
    let when = (Instant::now() + arguments.extent.interval.min(Duration::from_millis(1)), arguments.extent.interval);
    gpio_edges(wire, level, when, arguments.timeout, shared.rouser(0), go_on, |heard| {
        match heard {
            Heard::Edge(crossing, missed) => {
                // The edge has been heard: this is in no figure.
                let since = start.elapsed();
                let is_there = presence.as_mut().is_none_or(|presence| presence.is_there(since));
                if is_there && arguments.figure.of(&crossing).is_some_and(|ns| ns > limit_ns) {
                    shared.break_at(Instant::from_nanoseconds(crossing.set_ns));
                }
                let sample = Sample { crossing, missed };
                // What it heard on another CPU says nothing of this one.
                if is_there {
                    backlog.add(sample);
                }
                if let Some(lines) = lines.as_mut().filter(|_| is_there) {
                    lines.add(sample);
                }
                (came, lost_in_a_row) = (came + 1, 0);
                shared.count_one();
            }
            // Where none has ever come, nothing is wired.
            _ if came == 0 => return false,
            _ => lost_in_a_row += 1,
        }
        let is_enough = arguments.extent.count.is_some_and(|wanted| came >= wanted) || lost_in_a_row >= GIVE_UP_AFTER;
        go_on() && Instant::now() < end && !is_enough
    })
}

/// What is to be known of edges that were not as they should be, the worst first.
fn what_was_wrong(
    counts: &EdgeCounts,
    (out, input): (&Place, &Place),
    timeout: Duration,
    is_kept_away: bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if counts.lost > 0 {
        let which = if counts.came == 0 {
            "no edge came".to_owned()
        } else {
            format!("{} of {} edges did not come", counts.lost, counts.lost + counts.came)
        };
        let why = if is_kept_away {
            "; this thread spins, and runs before the one by which the kernel hands edges on (irq/...-hpt, SCHED_FIFO 50): listen by poll, or run below 50, or on another CPU than its"
        } else {
            ""
        };
        wrong.push(format!(
            "{which} at {} within {timeout:?} after {} was driven: is the one wired to the other?{why}",
            input.words(),
            out.words()
        ));
    }
    if counts.dropped > 0 {
        wrong.push(format!("the kernel had no room to keep {} edges: more came than were read", counts.dropped));
    }
    if counts.strange > 0 {
        wrong.push(format!(
            "{} edges came at {} that were not made: the line rings, or somebody else drives it",
            counts.strange,
            input.words()
        ));
    }
    if counts.elsewhen > 0 {
        wrong.push(format!(
            "the kernel's stamps of {} edges lie outside of the moments around them, and count in the whole only: in a time namespace they are those of the machine around it",
            counts.elsewhen
        ));
    }
    wrong
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn page(data: &Data, drawn: &Lateness) -> Vec<Block> {
    if data.results.is_empty() {
        let nothing = format!(
            "Nothing was measured from {} to {}. {}. {}",
            data.out.words(),
            data.r#in.words(),
            data.thread.words(data.cpu) + &absences::except(&data.away),
            data.head.machine.line()
        );
        return [Block::Text(nothing)].into_iter().chain(remarks(data.interrupted, &data.notes)).collect();
    }
    let mut columns = vec![Column("figure", Align::Left)];
    columns.extend(Figures::COLUMNS.map(|name| Column(name, Align::Right)));
    let cells = |row: &Row| [vec![Cell::plain(row.head)], row.figures.cells()].concat();
    let mut blocks = vec![Block::Table(Table { columns, rows: data.results.iter().map(cells).collect() })];
    blocks.extend(bars(drawn, ("took", "samples")));
    let step = data.step_ns.map_or_else(String::new, |ns| format!(" and steps by {}", short_time(ns as f64)));
    let how = match data.listen {
        "spin" => "reads again and again",
        _ => "is woken from poll(2) and reads it",
    };
    blocks.push(Block::Text(format!(
        "How long edges from {} to {} took, {} apart, for {:.1} s from {} on. set to edge: from before the line was driven to the kernel's stamp, in the interrupt's handler. to program: from \
         there until a program had it that {how}. whole: both. The bars are of {}. {}. missed: edges that were left out because the last one took longer than the interval. lost: {}. \
         Quantiles have ten samples beyond them at least. Time \
         by {}, the clock of the kernel's stamps: a look at it takes {}{step}, and is in every figure. {}",
        data.out.words(),
        data.r#in.words(),
        short_time(data.interval_ns as f64),
        data.elapsed_s,
        data.began,
        data.figure.replace('-', " "),
        data.thread.words(data.cpu) + &absences::except(&data.away),
        data.lost,
        data.source,
        short_time(data.look_ns as f64),
        data.head.machine.line()
    )));
    blocks.extend(ended_by(data.broke_at_ns, "took too long: its line was driven"));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// A chip, for programs.
#[derive(Debug, Serialize)]
struct ListedChip {
    path: PathBuf,
    chip: Option<String>,
    label: Option<String>,
    lines: Option<u32>,
    reason: Option<String>,
}

/// A line of it, for programs.
#[derive(Debug, Serialize)]
struct ListedLine {
    #[serde(flatten)]
    place: Place,
    direction: &'static str,
    used: bool,
    consumer: Option<String>,
    active_low: bool,
}

#[derive(Debug, Serialize)]
struct ListData {
    #[serde(flatten)]
    head: Head,
    chips: Vec<ListedChip>,
    lines: Vec<ListedLine>,
    notes: Vec<String>,
}

/// The chips and their lines; or the one that is asked for.
fn list(context: &Context, wanted: Option<&str>) -> Document {
    let mut data =
        ListData { head: Head::of(LIST, &context.host), chips: Vec::new(), lines: Vec::new(), notes: context.notes() };
    let paths = match wanted {
        Some(path) if path.starts_with('/') => Ok(vec![PathBuf::from(path)]),
        Some(_) | None => chips(),
    };
    let mut answer = Answer::Yes;
    match paths {
        Ok(paths) => {
            for path in paths {
                let opened = Chip::open(&path);
                if let (Ok(chip), Some(wanted)) = (&opened, wanted)
                    && !chip.is_called(wanted)
                {
                    continue;
                }
                match opened.and_then(|chip| chip.all_lines().map(|lines| (chip, lines))) {
                    Ok((chip, lines)) => {
                        data.lines.extend(lines.iter().map(|line| ListedLine::of(&chip, line)));
                        data.chips.push(ListedChip {
                            path,
                            chip: Some(chip.name().to_owned()),
                            label: Some(chip.label().to_owned()),
                            lines: Some(chip.lines()),
                            reason: None,
                        });
                    }
                    Err(reason) => {
                        let reason = Some(causes(&reason));
                        data.chips.push(ListedChip { path, chip: None, label: None, lines: None, reason });
                    }
                }
            }
            if data.chips.iter().all(|chip| chip.reason.is_some()) {
                answer = Answer::Unknown;
            }
        }
        Err(none) => {
            data.notes.push(causes(&none));
            answer = Answer::No;
        }
    }
    if let (true, Some(wanted), Answer::Unknown) = (data.chips.is_empty(), wanted, answer) {
        data.notes.push(format!("no GPIO chip is called {wanted:?}"));
        answer = Answer::No;
    }
    let blocks = list_page(&data);
    Document { answer, ..Document::new(&data, "lines", blocks) }
}

impl ListedLine {
    fn of(chip: &Chip, line: &LineState) -> Self {
        Self {
            place: Place::of(chip, line),
            direction: line.direction.name(),
            used: line.is_used,
            consumer: line.consumer.clone(),
            active_low: line.is_active_low,
        }
    }
}

fn list_page(data: &ListData) -> Vec<Block> {
    let mut blocks = Vec::new();
    for chip in &data.chips {
        let path = chip.path.display();
        if let Some(reason) = &chip.reason {
            blocks.push(Block::Text(format!("{path}: {reason}")));
            continue;
        }
        let label = chip.label.as_deref().unwrap_or_default();
        blocks.push(Block::Text(format!("{path}, {label}: {} lines", chip.lines.unwrap_or(0))));
        let columns = [
            Column("line", Align::Right),
            Column("name", Align::Left),
            Column("now", Align::Left),
            Column("used by", Align::Left),
        ];
        let of_chip = data.lines.iter().filter(|line| Some(&line.place.chip) == chip.chip.as_ref());
        let rows = of_chip.map(|line| {
            let now =
                if line.active_low { format!("{}, active low", line.direction) } else { line.direction.to_owned() };
            let user = match (&line.consumer, line.used) {
                (Some(consumer), _) => Cell(consumer.clone(), Tone::Bad),
                (None, true) => Cell("the kernel".to_owned(), Tone::Bad),
                (None, false) => Cell::faint("-"),
            };
            let name = Cell::or_dash(line.place.name.as_deref());
            vec![Cell::plain(line.place.line.to_string()), name, Cell::plain(now), user]
        });
        blocks.push(Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }));
    }
    let hint = if data.lines.is_empty() {
        ""
    } else {
        "A line that nobody uses can be driven, or listened to if its chip gives interrupts for it. "
    };
    blocks.push(Block::Text(format!("{hint}{}", data.head.machine.line())));
    blocks.extend(remarks(false, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::{
        SourceId,
        measure::{Crossing, EdgeCounts},
    };

    use super::{
        Data, Figure, ListData, ListedChip, ListedLine, Place, Sample, Three, list_page, page, rows, timeout,
        what_was_wrong,
    };
    use crate::{
        golden,
        output::Document,
        sampling::{raw_samples::RawSample, realtime::tests::example},
    };

    fn place(line: u32) -> Place {
        Place {
            chip: "gpiochip0".to_owned(),
            label: "pinctrl-bcm2835".to_owned(),
            line,
            name: (line != 0).then(|| format!("GPIO{line}")),
        }
    }

    fn sample(set_ns: u64, edge_ns: Option<u64>, known_ns: u64) -> Sample {
        Sample { crossing: Crossing::new(set_ns, edge_ns, known_ns), missed: u64::from(set_ns == 3_000_000) }
    }

    fn samples() -> [Sample; 4] {
        [
            sample(1_000_000, Some(1_001_500), 1_009_000),
            sample(2_000_000, Some(2_002_500), 2_010_400),
            sample(3_000_000, None, 3_012_000),
            sample(4_000_000, Some(4_001_000), 6_500_000),
        ]
    }

    #[test]
    fn a_run_is_printed_to_the_letter() {
        let mut three = Three::new();
        samples().into_iter().for_each(|sample| three.record(sample));
        let data = Data {
            head: golden::head("latency-gpio"),
            out: place(22),
            r#in: place(23),
            listen: "poll",
            interval_ns: 1_000_000,
            timeout_ns: 1_000_000_000,
            cpu: Some(1),
            thread: example(),
            source: SourceId::new("monotonic"),
            look_ns: 40,
            step_ns: Some(10),
            began: "2001-09-09T01:46:40Z".to_owned(),
            elapsed_s: 60.0,
            lost: 2,
            strange: 1,
            dropped: 0,
            elsewhen: 1,
            figure: Figure::Whole.name(),
            broke_at_ns: Some(4_000_000),
            interrupted: true,
            away: Vec::new(),
            results: rows(&three),
            notes: vec!["a note".to_owned()],
        };
        golden::assert("latency-gpio", &Document::new(&data, "results", page(&data, three.of(Figure::Whole))));
    }

    #[test]
    fn a_list_is_printed_to_the_letter() {
        let line = |line: u32, used: bool, consumer: Option<&str>| ListedLine {
            place: place(line),
            direction: if line == 2 { "output" } else { "input" },
            used,
            consumer: consumer.map(str::to_owned),
            active_low: line == 2,
        };
        let data = ListData {
            head: golden::head("latency-gpio-list"),
            chips: vec![
                ListedChip {
                    path: "/dev/gpiochip0".into(),
                    chip: Some("gpiochip0".to_owned()),
                    label: Some("pinctrl-bcm2835".to_owned()),
                    lines: Some(3),
                    reason: None,
                },
                ListedChip {
                    path: "/dev/gpiochip1".into(),
                    chip: None,
                    label: None,
                    lines: None,
                    reason: Some("a reason".to_owned()),
                },
            ],
            lines: vec![line(0, false, None), line(1, true, None), line(2, true, Some("led0"))],
            notes: vec!["a note".to_owned()],
        };
        golden::assert("latency-gpio-list", &Document::new(&data, "lines", list_page(&data)));
    }

    #[test]
    fn every_edge_is_written_with_its_three_figures() {
        let text = samples().map(|sample| sample.text());
        assert_eq!(
            text,
            ["1000000 1500 7500 9000", "2000000 2500 7900 10400", "3000000 - - 12000", "4000000 1000 2499000 2500000"]
        );
    }

    #[test]
    fn parts_and_whole_are_counted_apart() {
        let mut three = Three::new();
        samples().into_iter().for_each(|sample| three.record(sample));
        let counted = Figure::ALL.map(|figure| (three.of(figure).counts().samples(), three.of(figure).missed()));
        assert_eq!(counted, [(3, 0), (3, 0), (4, 1)]);
    }

    #[test]
    fn what_was_wrong_is_said_with_what_helps() {
        let said = |counts: EdgeCounts, is_kept_away| {
            what_was_wrong(&counts, (&place(22), &place(23)), Duration::from_secs(1), is_kept_away)
        };
        assert!(said(EdgeCounts::default(), true).is_empty());
        let mut counts = EdgeCounts::default();
        counts.lost = 1;
        assert_eq!(
            said(counts, false),
            [
                "no edge came at GPIO23 (gpiochip0:23) within 1s after GPIO22 (gpiochip0:22) was driven: is the one wired to the other?"
            ]
        );
        assert!(said(counts, true)[0].contains("SCHED_FIFO 50"));
        (counts.came, counts.strange, counts.dropped, counts.elsewhen) = (5, 2, 3, 4);
        let all = said(counts, false);
        assert_eq!(all.len(), 4);
        assert!(
            all[0].starts_with("1 of 6 edges did not come")
                && all[1].contains("3 edges")
                && all[2].contains("2 edges")
                && all[3].contains("4 edges"),
            "{all:?}"
        );
    }

    #[test]
    fn a_timeout_is_neither_nothing_nor_for_ever() {
        assert_eq!(timeout("100ms"), Ok(Duration::from_millis(100)));
        assert!(["0s", "1us", "2h", "1", ""].iter().all(|wrong| timeout(wrong).is_err()));
    }
}
