//! Tells the linker that the library's own calls of `clock_gettime` are for its own function, also where another preloaded library comes first.
//! Builds nothing.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
