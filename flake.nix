{
  description = "The gateway and ledger through which financial agents learn what became of the work they asked for";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      forEachSystem = make: lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});

      manifest = lib.importJSON ./package.json;
      lock = lib.importJSON ./package-lock.json;

      # What the program runs on. flock locks the data directory of the embedded PostgreSQL.
      runtimeOf =
        pkgs:
        [ pkgs.postgresql_18 ] ++ lib.optionals pkgs.stdenv.hostPlatform.isLinux [ pkgs.util-linux ];

      # npm installs no package of another platform.
      isFor =
        pkgs: entry:
        let
          inherit (pkgs.stdenv.hostPlatform) node;
        in
        lib.elem node.platform (entry.os or [ node.platform ])
        && lib.elem node.arch (entry.cpu or [ node.arch ]);

      # The tarball of a package. The lock file has its hash and no address, so npm downloads it, and not fetchurl.
      tarballOf =
        pkgs: path: entry:
        let
          name = lib.last (lib.splitString "node_modules/" path);
        in
        pkgs.runCommand "${lib.strings.sanitizeDerivationName name}-${entry.version}.tgz"
          {
            nativeBuildInputs = [ pkgs.nodejs_24 ];
            outputHash = entry.integrity;
            impureEnvVars = lib.fetchers.proxyImpureEnvVars;
            # The standard environment names no certificates, and then npm verifies none.
            SSL_CERT_FILE = "${pkgs.cacert}/etc/ssl/certs/ca-bundle.crt";
          }
          ''
            HOME=$TMPDIR npm pack --ignore-scripts ${name}@${entry.version}
            mv *.tgz $out
          '';

      # importNpmLock takes the hashes from the lock file. The one hash of npmDepsHash needs addresses in it, and would be
      # out of date with each update.
      build =
        pkgs: attributes:
        pkgs.buildNpmPackage (
          {
            pname = manifest.name;
            inherit (manifest) version;
            src = self;
            nodejs = pkgs.nodejs_24;
            npmDeps = pkgs.importNpmLock {
              package = manifest;
              packageLock = lock;
              packageSourceOverrides = lib.mapAttrs (tarballOf pkgs) (
                lib.filterAttrs (path: entry: path != "" && isFor pkgs entry) lock.packages
              );
            };
            inherit (pkgs.importNpmLock) npmConfigHook;
            # The install scripts would download a prebuilt Node. Nothing needs the others.
            npmRebuildFlags = [ "--ignore-scripts" ];
            npmPackFlags = [ "--ignore-scripts" ];
            # The hook leaves a manifest with paths of the store, which the program would hold.
            preBuild = "mv .package.json.orig package.json";
          }
          // attributes
        );
    in
    {
      packages = forEachSystem (pkgs: {
        default = build pkgs {
          # A PostgreSQL of the user has priority.
          makeWrapperArgs = [
            "--suffix"
            "PATH"
            ":"
            (lib.makeBinPath (runtimeOf pkgs))
          ];
          meta.mainProgram = manifest.name;
        };
      });

      apps = forEachSystem (pkgs: {
        default = {
          type = "app";
          program = lib.getExe self.packages.${pkgs.stdenv.hostPlatform.system}.default;
        };
      });

      checks = forEachSystem (
        pkgs:
        lib.mapAttrs
          (
            name: npmBuildScript:
            build pkgs {
              pname = "${manifest.name}-${name}";
              inherit npmBuildScript;
              installPhase = "touch $out";
            }
          )
          {
            types = "types";
            lint = "lint";
            unit = "test:unit";
          }
        // {
          package = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
        }
      );

      devShells = forEachSystem (
        pkgs:
        let
          # npm's packages of Node and dprint are prebuilt programs, which do not run on NixOS.
          programs = [
            pkgs.nodejs_24
            pkgs.dprint
          ]
          ++ runtimeOf pkgs;
        in
        {
          default = pkgs.mkShell {
            packages = programs ++ [
              # What the benchmarks and checks are looked at with.
              pkgs.wrk
              pkgs.hyperfine
              pkgs.curl
              pkgs.jq
              pkgs.nixfmt
            ];
            # npm puts node_modules/.bin first on the PATH of each script. Its shell puts the programs above before that.
            npm_config_script_shell = pkgs.writeShellScript "npm-script-shell" ''
              export PATH=${lib.makeBinPath programs}:$PATH
              exec ${pkgs.runtimeShell} "$@"
            '';
            shellHook = ''
              export PATH="$PATH:$PWD/node_modules/.bin"
            '';
          };
        }
      );

      formatter = forEachSystem (pkgs: pkgs.nixfmt);
    };
}
