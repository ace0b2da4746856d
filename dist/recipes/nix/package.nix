# Parsed only: not built.
{
  lib,
  rustPlatform,
  fetchurl,
  installShellFiles,
}:

rustPlatform.buildRustPackage {
  pname = "hpt";
  version = "@VERSION@";

  src = fetchurl {
    url = "@REPOSITORY@/releases/download/v@VERSION@/hpt_@VERSION@.orig.tar.xz";
    sha256 = "@SHA256_SOURCE@";
  };

  # The source contains all crates.
  cargoVendorDir = "vendor";
  cargoBuildFlags = [
    "--package"
    "hpt-cli"
  ];
  buildType = "dist";
  # The tests need captures of machines, which the source does not contain.
  doCheck = false;

  nativeBuildInputs = [ installShellFiles ];
  postInstall = ''
    $out/bin/hpt manual man
    installManPage man/*
    installShellCompletion --cmd hpt \
      --bash <($out/bin/hpt completions bash) \
      --zsh <($out/bin/hpt completions zsh) \
      --fish <($out/bin/hpt completions fish)
  '';

  meta = {
    description = "Measure and diagnose clocks and latency on Linux";
    homepage = "@REPOSITORY@";
    license = with lib.licenses; [
      mit
      asl20
    ];
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
      "armv7l-linux"
    ];
    mainProgram = "hpt";
  };
}
