//! The network interfaces of the experiment `period`.

use std::str::FromStr;

use hpt_instrument::measure::{FrameError, FramePort};

/// The network interfaces of frames: the one that sends and receives them, and one that sends them back, unless a device
/// of the network does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frames {
    port: String,
    device: Option<String>,
}

impl FromStr for Frames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut names = text.split(',').map(str::to_owned);
        let (port, device, rest) = (names.next().unwrap_or_default(), names.next(), names.next());
        let is_empty = port.is_empty() || device.as_ref().is_some_and(String::is_empty);
        if is_empty || rest.is_some() || device.as_ref() == Some(&port) {
            return Err("expected one interface, or two that are connected, such as eth0 or hpt0,hpt1".to_owned());
        }
        Ok(Self { port, device })
    }
}

impl Frames {
    /// Opens the interfaces.
    pub(super) fn open(&self) -> Result<(FramePort, Option<FramePort>), FrameError> {
        Ok((FramePort::open(&self.port)?, self.device.as_deref().map(FramePort::open).transpose()?))
    }

    /// States where the frames go.
    pub(super) fn how(&self) -> String {
        match &self.device {
            Some(device) => format!("frames from {} to {device} and back, with both ends in hpt", self.port),
            None => format!("frames on {}, returned by the network", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Frames;

    #[test]
    fn one_interface_or_two_are_accepted() {
        let of = |text: &str| text.parse::<Frames>().map(|frames| frames.how());
        assert_eq!(of("eth0").as_deref(), Ok("frames on eth0, returned by the network"));
        assert_eq!(of("a,b").as_deref(), Ok("frames from a to b and back, with both ends in hpt"));
        assert!(["", ",", "a,", ",a", "a,a", "a,b,c"].iter().all(|text| of(text).is_err()));
    }
}
