import Testing

extension RealMounts {
    /// Set-user-ID and set-group-ID bits go when somebody changes the file, as on any file system of Linux.
    @Suite struct Privileges {
        @Test(
            .timeLimit(.minutes(5)), .enabled(if: Machine.isRoot, "acting as several users takes root"),
            arguments: ["durable=remote", "durable=local"])
        func changesTakeThemAwayAsOnALocalDisk(_ durable: String) async throws {
            try await withMount("allow-other", durable) { world, _ in
                let program = Programs.helper("privileges.py")
                try await world.sh(
                    """
                    mkdir $T/local mounted
                    diff <("$PYTHON" '\(program)' $T/local) <("$PYTHON" '\(program)' mounted)
                    """)
                // What is left is what the store has.
                try await world.sh(
                    """
                    echo content >program; chmod 6755 program; chown nobody program
                    test $(stat -c %a program) = 755
                    chmod 4777 program
                    setpriv --reuid=1002 --regid=1002 --clear-groups sh -c 'echo more >>program'
                    """)
                try await world.unmount()
                try await world.mount(["attrs=exact"], cache: "another")
                try await world.sh("test \"$(stat -c '%a %U' program)\" = '777 nobody'")
            }
        }
    }
}
