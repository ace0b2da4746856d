//! Tells the shared source files that they are compiled for the model.
//! Builds nothing.

fn main() {
    println!("cargo:rustc-cfg=loom");
    println!("cargo:rerun-if-changed=build.rs");
}
