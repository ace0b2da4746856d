//! Sets the configuration `loom`, with which the shared source files are compiled for the model.

fn main() {
    println!("cargo:rustc-cfg=loom");
    println!("cargo:rerun-if-changed=build.rs");
}
