//! State in files, on this machine.

#![allow(clippy::disallowed_methods, reason = "tests write files of their own")]

use hpt_realtime::state::{Binding, StateError, Store};
use hpt_sys::{host::Host, skipped};

#[test]
fn state_is_saved_for_this_boot_and_replaced_atomically() {
    let Some(binding) = Binding::new(&Host::live()) else {
        return skipped!("/proc does not tell the boot's identity");
    };
    let folder = std::env::temp_dir().join(format!("hpt-state-test-{}", std::process::id()));
    let store = Store::new(&folder);
    assert!(matches!(store.load("any", &binding), Err(StateError::Missing { .. })));
    store.save("any", &binding, b"first").expect("the temporary folder can be written");
    store.save("any", &binding, b"second").expect("the temporary folder can be written");
    assert_eq!(store.load("any", &binding).expect("just saved"), b"second");
    // A killed write leaves data next to the file, never in it.
    std::fs::write(folder.join(".any.1"), b"half").expect("the temporary folder can be written");
    assert_eq!(store.load("any", &binding).expect("still whole"), b"second");
    std::fs::remove_dir_all(folder).expect("it is ours");
}
