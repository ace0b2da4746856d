//! Raw frames on a network interface, as the master of an EtherCAT network sends them: one datagram that reads the
//! register 0 of all devices.

use std::{io, net::UdpSocket, time::Duration};

use hpt_sys::packet;

/// The EtherType of EtherCAT. IEEE registration authority; IEC 61158-4-12.
const ETHERTYPE: u16 = 0x88a4;
/// The shortest frame without its checksum. IEEE 802.3, 4.4.2.
const LENGTH: usize = 60;
/// A broadcast read (BRD), which changes nothing in any device. IEC 61158-4-12, 5.4.1.
const BROADCAST_READ: u8 = 7;
/// The number of data bytes of the datagram.
const DATA: u8 = 2;
/// The offsets of the command, its number, and the working counter, which each device increments.
const COMMAND: usize = 16;
const NUMBER: usize = 17;
const WORKING_COUNTER: usize = 26 + DATA as usize;

/// The reason why frames cannot be sent on an interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The process lacks the capability CAP_NET_RAW.
    #[error(
        "raw frames on {interface} need the capability CAP_NET_RAW; run as root (sudo), or give it to the program (setcap cap_net_raw+ep)"
    )]
    NoRight {
        /// The interface.
        interface: String,
    },
    /// There is no such interface.
    #[error(
        "there is no network interface {interface:?}; `ip link` lists them, and `ip link add hpt0 type veth peer name hpt1` makes two that are connected"
    )]
    NoInterface {
        /// The requested name.
        interface: String,
    },
    /// The interface is down.
    #[error("the network interface {interface} is down; run `ip link set {interface} up`")]
    Down {
        /// The interface.
        interface: String,
    },
    /// The kernel refused the socket for another reason.
    #[error("cannot open a socket for raw frames on {interface}")]
    Refused {
        /// The interface.
        interface: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
}

/// A network interface on which frames with the EtherType of EtherCAT (0x88A4) are sent and received.
#[derive(Debug)]
pub struct FramePort(UdpSocket);

impl FramePort {
    /// Opens a raw socket on an interface, for example eth0.
    ///
    /// # Errors
    ///
    /// Returns [`FrameError`] if the process lacks CAP_NET_RAW, or if the interface does not exist or is down.
    ///
    /// # References
    ///
    /// packet(7).
    pub fn open(interface: &str) -> Result<Self, FrameError> {
        packet::open(interface, ETHERTYPE).map(Self).map_err(|cause| {
            let interface = interface.to_owned();
            match cause.raw_os_error() {
                Some(libc::EPERM) => FrameError::NoRight { interface },
                Some(libc::ENODEV) => FrameError::NoInterface { interface },
                Some(libc::ENETDOWN) => FrameError::Down { interface },
                _ => FrameError::Refused { interface, cause },
            }
        })
    }

    /// Sends a frame with this number.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example ENETDOWN.
    pub fn send(&self, number: u8) -> io::Result<()> {
        self.0.send(&frame(number)).map(drop)
    }

    /// Blocks until a frame arrives, and returns its number. Returns `None` if none arrives within `at_most`, which the
    /// kernel rounds up to its timer ticks (1 to 10 ms), or if another frame arrives.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example ENETDOWN.
    pub fn receive(&self, at_most: Duration) -> io::Result<Option<u8>> {
        let mut frame = [0; LENGTH];
        Ok(self.next(&mut frame, at_most)?.then(|| number_of(&frame)).flatten())
    }

    /// Blocks until a frame arrives, and sends it back with a higher working counter, as a device of the network does.
    /// Returns whether a frame was sent back within `at_most`.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, for example ENETDOWN.
    pub fn answer(&self, at_most: Duration) -> io::Result<bool> {
        let mut frame = [0; LENGTH];
        if !self.next(&mut frame, at_most)? || number_of(&frame).is_none() {
            return Ok(false);
        }
        frame[WORKING_COUNTER] = frame[WORKING_COUNTER].wrapping_add(1);
        self.0.send(&frame)?;
        Ok(true)
    }

    /// Receives a frame; false if there is none in time.
    fn next(&self, frame: &mut [u8; LENGTH], at_most: Duration) -> io::Result<bool> {
        self.0.set_read_timeout(Some(at_most.max(Duration::from_micros(1))))?;
        match self.0.recv(frame) {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            },
        }
    }
}

/// Returns a frame from a locally administered address to all devices.
fn frame(number: u8) -> [u8; LENGTH] {
    let mut frame = [0; LENGTH];
    frame[..6].fill(0xff);
    frame[6] = 0x02;
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    // The length of the datagram in 11 bits, and the type 1 in the upper four. All fields are little-endian.
    let datagram = u16::from(DATA) + 12;
    frame[14..16].copy_from_slice(&(datagram | 1 << 12).to_le_bytes());
    frame[COMMAND] = BROADCAST_READ;
    frame[NUMBER] = number;
    frame[22] = DATA;
    frame
}

/// Returns the number of a frame; `None` if it is not one of this module.
fn number_of(frame: &[u8; LENGTH]) -> Option<u8> {
    let is_ours = frame[12..14] == ETHERTYPE.to_be_bytes() && frame[COMMAND] == BROADCAST_READ;
    is_ours.then_some(frame[NUMBER])
}

#[cfg(test)]
mod tests {
    use super::{FrameError, FramePort, frame, number_of};

    #[test]
    fn a_frame_is_a_broadcast_read_of_two_bytes() {
        let sent = frame(0xa5);
        // IEC 61158-4-12: destination, source, EtherType, header, command, number, address, length, interrupt, data,
        // working counter.
        let expected = [
            &[0xff; 6][..],
            &[0x02, 0, 0, 0, 0, 0],
            &[0x88, 0xa4],
            &[0x0e, 0x10],
            &[7, 0xa5],
            &[0; 4],
            &[2, 0],
            &[0; 2],
            &[0; 2],
            &[0; 2],
        ]
        .concat();
        assert_eq!(sent[..expected.len()], expected);
        assert!(sent[expected.len()..].iter().all(|&byte| byte == 0) && sent.len() == 60);
        assert_eq!(number_of(&sent), Some(0xa5));
    }

    #[test]
    fn another_frame_has_no_number() {
        for (at, byte) in [(12, 0x08), (13, 0x00), (16, 1)] {
            let mut other = frame(1);
            other[at] = byte;
            assert_eq!(number_of(&other), None, "{at}");
        }
    }

    #[test]
    fn a_refused_interface_has_a_fix() {
        let error = FramePort::open("no-such-if").expect_err("there is none");
        let text = error.to_string();
        match error {
            FrameError::NoInterface { .. } => assert!(text.contains("ip link add hpt0 type veth"), "{text}"),
            FrameError::NoRight { .. } => assert!(text.contains("CAP_NET_RAW"), "{text}"),
            FrameError::Down { .. } | FrameError::Refused { .. } => panic!("{text}"),
        }
    }
}
