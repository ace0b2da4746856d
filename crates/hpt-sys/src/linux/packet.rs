//! A socket for the frames of one protocol on one network interface. Does not know what the frames contain.

use std::{
    ffi::CString,
    io,
    net::UdpSocket,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// Opens a socket for frames with this EtherType on the interface with this name. The socket receives whole frames, and
/// sends what it is given as a frame. It is wrapped in a type of the standard library that has the calls for a connected
/// socket (send, recv and their time limit), which do not depend on the protocol.
///
/// # Errors
///
/// Returns EPERM without CAP_NET_RAW, ENODEV if there is no such interface, and ENETDOWN if the interface is down.
pub fn open(interface: &str, ethertype: u16) -> io::Result<UdpSocket> {
    let name = CString::new(interface).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // Protocol 0 receives nothing until the socket is bound to an interface. packet(7).
    // SAFETY: the call takes numbers. socket(2).
    let number = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has returned this open descriptor, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: the call reads a string that ends with a zero and lives as long as the call. if_nametoindex(3).
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let index = libc::c_int::try_from(index).unwrap_or(0);
    if index == 0 {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::c_ushort::try_from(libc::AF_PACKET).expect("a small number"),
        sll_protocol: ethertype.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = libc::socklen_t::try_from(size_of_val(&address)).expect("twenty bytes");
    // SAFETY: the call reads a structure of the given length, which lives as long as the call. bind(2), packet(7).
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    let socket = UdpSocket::from(socket);
    // The kernel binds a socket even to an interface that is down, and reports that here. Linux,
    // net/packet/af_packet.c, `packet_do_bind`.
    socket.take_error()?.map_or(Ok(socket), Err)
}

#[cfg(test)]
mod tests {
    use super::open;

    #[test]
    fn an_interface_that_does_not_exist_or_is_not_permitted_is_an_error() {
        for name in ["no-such-if", "", "a\0b", "a-name-that-is-too-long-for-an-interface"] {
            let error = open(name, 0x88a4).expect_err("there is none").raw_os_error();
            assert!(matches!(error, Some(libc::ENODEV | libc::EPERM | libc::EAFNOSUPPORT)), "{name:?}: {error:?}");
        }
    }
}
