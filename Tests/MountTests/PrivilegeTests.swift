import TestSupport
import Testing

extension RealMounts {
    /// Modes, owners and groups: what the kernel allows by them, and the set-user-ID and set-group-ID bits that a change takes away.
    @Suite struct Privileges {
        @Test(
            .rule("attr.suid"),
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

        @Test(
            .timeLimit(.minutes(5)), .enabled(if: Machine.isRoot, "acting as several users takes root"),
            .rule("permission", "attr.listing"))
        func theKernelChecksModeOwnerAndGroup() async throws {
            try await withMount("allow-other") { world, _ in
                try await world.sh(
                    """
                    chmod 755 $T
                    for name in all own group theirs; do printf x >$name; done
                    chmod 644 all; chmod 600 own theirs; chmod 640 group; chown 0:1234 group; chown 65534 theirs
                    as() { setpriv --reuid=65534 --regid=65534 "$@"; }
                    as --clear-groups cat all theirs
                    as --groups=1234 cat group
                    refuses as --clear-groups cat own
                    refuses as --clear-groups cat group
                    refuses as --clear-groups sh -c ': >all'
                    """)
                try await world.python(
                    """
                    import errno, os, struct
                    # rw for the owner, r for the group and for others: include/uapi/linux/posix_acl_xattr.h.
                    entries = [(1, 6), (4, 4), (32, 4)]
                    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry, 0xFFFFFFFF) for entry in entries)
                    for name in "system.posix_acl_access", "system.posix_acl_default":
                        try: os.setxattr(".", name, acl)
                        except OSError as error: assert error.errno == errno.EOPNOTSUPP, error
                        else: raise AssertionError("an ACL was set")
                    """)
                try await world.unmount()
                // Another machine has the names from a listing alone.
                try await world.mount(["allow-other"], cache: "another")
                try await world.sh("test $(stat -c %a own) = 644; setpriv --reuid=65534 --clear-groups cat own")
            }
        }
    }
}
