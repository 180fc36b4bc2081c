{
  description = "The gateway and ledger through which financial agents learn what became of the work they asked for";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      forEachSystem = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      devShells = forEachSystem (pkgs: {
        default = pkgs.mkShell {
          packages = [
            # What the project runs on.
            pkgs.nodejs_24
            pkgs.postgresql_18
            # What the benchmarks and checks are looked at with.
            pkgs.wrk
            pkgs.hyperfine
            pkgs.curl
            pkgs.jq
            pkgs.nixfmt
          ]
          ++ pkgs.lib.optionals pkgs.stdenv.hostPlatform.isLinux [
            # flock, with which the embedded PostgreSQL locks its data directory.
            pkgs.util-linux
          ];
          shellHook = ''
            export PATH="$PWD/node_modules/.bin:$PATH"
          '';
        };
      });

      formatter = forEachSystem (pkgs: pkgs.nixfmt);
    };
}
