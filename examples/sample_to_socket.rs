//! Reads a converter at each edge of a GPIO line, or every millisecond, and sends the samples to a TCP client.
//!
//! ```text
//! cargo run -p hpt-instrument --example sample_to_socket -- [LINE]
//! ```
//!
//! LINE is a GPIO line, for example GPIO23, on which the converter reports that a value is ready. Without LINE, a sample
//! is taken every millisecond. The values come from /dev/spidev0.0 if this device can be opened, otherwise they are
//! numbers that count up. The thread that samples has real-time settings and never waits for the network: another thread
//! writes to the socket, and samples that the client is too slow for are counted and dropped.
#![forbid(unsafe_code)]

use std::{
    error::Error,
    fs::File,
    io::{self, BufWriter, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, TrySendError, sync_channel},
    thread,
    time::Duration,
};

use hpt_core::{Host, Instant, Pacer};
use hpt_instrument::gpio::{Input, LineName};
use hpt_realtime::{Policy, Setup};

const PERIOD: Duration = Duration::from_millis(1);
/// The number of samples that may wait for the socket: the client may stand still for a second.
const QUEUE: usize = 1_000;

/// The event that starts a sample.
enum Trigger {
    Edge(Input),
    Period(Box<Pacer>),
}

impl Trigger {
    fn of(line: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let Some(line) = line else { return Ok(Self::Period(Pacer::new(PERIOD).into())) };
        let found = line.parse::<LineName>()?.find()?;
        Ok(Self::Edge(Input::request(&found.chip, found.line.offset, "sample_to_socket")?))
    }

    /// Waits for the event. Returns its time: the time of the kernel's interrupt handler, or the deadline.
    fn wait(&mut self) -> io::Result<Instant> {
        match self {
            Self::Period(pacer) => Ok(pacer.wait().deadline),
            Self::Edge(input) => loop {
                if let Some(edge) = input.edge()? {
                    return Ok(Instant::EPOCH + Duration::from_nanos(edge.at_ns));
                }
                input.wait(Duration::from_secs(1))?;
            },
        }
    }
}

/// An analog-to-digital converter that sends 16 bits when it is read, for example an MCP3201. Without one, the values
/// count up.
struct Converter {
    device: Option<File>,
    count: u16,
}

impl Converter {
    #[allow(clippy::disallowed_methods, reason = "a device of the kernel")]
    fn open() -> Self {
        Self { device: File::open("/dev/spidev0.0").ok(), count: 0 }
    }

    fn value(&mut self) -> io::Result<u16> {
        let mut bits = [0; 2];
        match &mut self.device {
            Some(device) => device.read_exact(&mut bits).map(|()| u16::from_be_bytes(bits)),
            None => {
                self.count = self.count.wrapping_add(1);
                Ok(self.count)
            }
        }
    }
}

/// A value, the time of the event, and the time from the event until the value was there.
struct Sample {
    at: Instant,
    value: u16,
    late: Duration,
}

#[derive(Debug, Default)]
struct Report {
    sent: u64,
    dropped: u64,
    latest: Duration,
}

/// Writes samples to the client, one on each line, until the sampling thread ends or the client closes the connection.
fn send_all(samples: &Receiver<Sample>, client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufWriter::new(client);
    while let Ok(first) = samples.recv() {
        // Samples that have queued up meanwhile need one system call.
        for Sample { at, value, late } in std::iter::once(first).chain(samples.try_iter()) {
            writeln!(client, "{at} {value} {}", late.as_nanos())?;
        }
        client.flush()?;
    }
    Ok(())
}

/// Samples until `count` samples were taken, or the client has gone.
fn sample(trigger: &mut Trigger, converter: &mut Converter, client: TcpStream, count: u64) -> io::Result<Report> {
    let (queue, samples) = sync_channel(QUEUE);
    let sender = thread::spawn(move || send_all(&samples, client));
    let mut report = Report::default();
    for _ in 0..count {
        let at = trigger.wait()?;
        let value = converter.value()?;
        let late = Instant::now().saturating_duration_since(at);
        report.latest = report.latest.max(late);
        match queue.try_send(Sample { at, value, late }) {
            Ok(()) => report.sent += 1,
            Err(TrySendError::Full(_)) => report.dropped += 1,
            Err(TrySendError::Disconnected(_)) => break,
        }
    }
    drop(queue);
    // A client that closes the connection ends the run.
    let _ = sender.join();
    Ok(report)
}

fn main() -> Result<(), Box<dyn Error>> {
    let line = std::env::args().nth(1);
    let mut trigger = Trigger::of(line.as_deref())?;
    let mut converter = Converter::open();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("waiting for a client: nc {}", listener.local_addr()?.to_string().replace(':', " "));
    let (client, _) = listener.accept()?;
    let setup = Setup::blocking().with_policy(Policy::Fifo(50)).with_memory_locked().without_slack().with_best_effort();
    let held = setup.apply(&Host::live())?;
    for refused in held.refused() {
        println!("without {}: {}", refused.setting, refused.error);
    }
    let report = sample(&mut trigger, &mut converter, client, u64::MAX)?;
    println!("{} samples, {} dropped, at most {:?} after the event", report.sent, report.dropped, report.latest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::{Converter, Trigger, sample};

    /// Runs with a client that reads this number of lines and then closes the connection. Returns the lines.
    fn lines(count: u64, read: usize) -> (super::Report, Vec<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a local port");
        let address = listener.local_addr().expect("it is bound");
        let client = thread::spawn(move || {
            let stream = BufReader::new(TcpStream::connect(address).expect("it listens"));
            stream.lines().take(read).map(|line| line.expect("UTF-8")).collect()
        });
        let mut trigger = Trigger::of(None).expect("a period needs no device");
        let mut converter = Converter { device: None, count: 0 };
        let (stream, _) = listener.accept().expect("a client");
        let report = sample(&mut trigger, &mut converter, stream, count).expect("no device can fail");
        (report, client.join().expect("it reads"))
    }

    #[test]
    fn a_client_receives_every_sample_in_order() {
        let (report, lines) = lines(50, 50);
        assert_eq!((report.sent, report.dropped), (50, 0));
        let fields: Vec<Vec<f64>> =
            lines.iter().map(|line| line.split(' ').map(|field| field.parse().expect("a number")).collect()).collect();
        assert!(fields.iter().zip(1..).all(|(fields, number)| fields[1] == f64::from(number)), "{lines:?}");
        assert!(fields.windows(2).all(|pair| pair[0][0] < pair[1][0]), "{lines:?}");
    }

    #[test]
    fn a_client_that_goes_away_ends_the_run() {
        let (report, lines) = lines(u64::MAX, 5);
        assert!(lines.len() == 5 && report.sent >= 5, "{report:?}");
    }

    #[test]
    fn a_line_that_does_not_exist_is_refused() {
        assert!(Trigger::of(Some("no-such-line")).is_err());
    }
}
