//! Makes the linker bind the library's own calls of `clock_gettime` to its own function, even if another preloaded
//! library precedes it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
