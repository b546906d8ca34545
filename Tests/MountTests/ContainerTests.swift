import Testing

extension RealMountsAlone {
    /// In a container that an ordinary user has started, most users of the machine have no number, its root included.
    @Suite struct Containers {
        /// `unshare -Ur` has a number for one user alone. podman has one for many, among them the user whose number is also
        /// reported for those who have none.
        @Test(
            .timeLimit(.minutes(5)), .enabled(if: Machine.isRoot, "giving directories to several users takes root"),
            arguments: ["0 0 1", "0 0 1\n1 100000 65535"])
        func usersWithoutANumberAreNoIntruders(_ map: String) async throws {
            try await withStore { world, _ in
                try await world.sh(
                    """
                    cd $T
                    mkdir -p outside/cache
                    echo 'memory = 64MiB' >outside/config
                    chown -R 12345:12345 outside
                    chown 0:0 outside/cache
                    cat >inside <<'END'
                    set -e
                    cd $T
                    test "$(id -u) $(stat -c %u outside)" = '0 65534'
                    export PAILFS_CONFIG=$T/outside/config
                    \(Programs.pailfs) mount \(world.bucket.url) $M -o \(world.options([], cache: "outside/cache")) 2>said
                    printf x >$M/file
                    test "$(cat $M/file)" = x
                    \(Programs.pailfs) unmount $M
                    cat said
                    test ! -s said
                    END
                    mkfifo mapped
                    unshare --user --mount bash -c 'read <mapped; exec bash inside' &
                    until test "$(readlink /proc/$!/ns/user)" != "$(readlink /proc/self/ns/user)"; do :; done
                    printf '\(map.replacingLineBreaks)' | tee /proc/$!/uid_map >/proc/$!/gid_map
                    echo >mapped
                    wait $!
                    """)
                #expect(try await world.outside("get", "file") == "x")
            }
        }

        @Test(.timeLimit(.minutes(5)), .enabled(if: Machine.isRoot, "giving directories to several users takes root"))
        func aUserWithANumberIsNamedAsOneWhoCanReplaceTheCache() async throws {
            try await withStore { world, _ in
                let said = try await world.sh(
                    """
                    cd $T
                    mkdir -p other/cache
                    chown 12345 other
                    \(Programs.pailfs) mount \(world.bucket.url) $M -o \(world.options([], cache: "other/cache")) 2>&1
                    \(Programs.pailfs) unmount $M
                    """)
                #expect(said.contains("user 12345 can replace files in "))
            }
        }
    }
}

extension String {
    fileprivate var replacingLineBreaks: String { split(separator: "\n").joined(separator: "\\n") + "\\n" }
}
