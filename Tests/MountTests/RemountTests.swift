import TestSupport
import Testing

extension RealMounts {
    /// What one mount stored, the next one finds: on the same machine, and on another.
    @Suite struct Remounts {
        @Test(.timeLimit(.minutes(5)))
        func theSameMachineFindsNamesBytesModesTimesAndLinks() async throws {
            try await withMount { world, _ in
                try await world.sh("make_tree $T/tree; cp -a $T/tree tree", deadline: .seconds(90))
                try await world.unmount()
                try await world.mount()
                try await world.sh("same $T/tree tree")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func anotherMachineFindsNamesBytesModesTimesAndLinks() async throws {
            try await withMount { world, _ in
                try await world.sh("make_tree $T/tree; cp -a $T/tree tree", deadline: .seconds(90))
                try await world.unmount()
                try await world.mount(["attrs=exact"], cache: "another")
                // Before any of it is read; a directory's own time and mode need its marker, which nothing asks for.
                try await world.sh(
                    """
                    diff <(manifest $T/tree | grep -v ' d ') <(manifest tree | grep -v ' d ')
                    diff -r --no-dereference $T/tree tree
                    """)
            }
        }

        @Test(.rule("xattr.user"), .timeLimit(.minutes(5)))
        func extendedAttributesStayWithTheFile() async throws {
            try await withMount { world, _ in
                try await world.sh(
                    """
                    printf x >file
                    setfattr -n user.colour -v blue file
                    setfattr -n user.empty file
                    setfattr -n user.gone -v x file && setfattr -x user.gone file
                    test "$(getfattr --only-values -n user.colour file)" = blue
                    test "$(getfattr file | grep -c '^user\\.')" = 2
                    """)
                try await world.unmount()
                try await world.mount(cache: "another")
                try await world.sh(
                    """
                    test "$(getfattr --only-values -n user.colour file)" = blue
                    test "$(getfattr file | grep '^user\\.' | tr '\\n' ' ')" = 'user.colour user.empty '
                    refuses getfattr -n user.gone file
                    """)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func whatOthersStoredIsThereAndWhatTheyRemovedIsGone() async throws {
            try await withMount("ttl=0") { world, _ in
                try await world.sh("printf one >$T/one; printf 'two and more' >$T/two")
                try await world.outside("put", "theirs/name", world.scratch.path("one"))
                try await world.sh("test \"$(cat theirs/name)\" = one; test \"$(ls)\" = theirs")
                try await world.outside("put", "theirs/name", world.scratch.path("two"))
                try await world.sh(
                    "test \"$(cat theirs/name)\" = 'two and more'; test \"$(stat -c %s theirs/name)\" = 12")
            }
        }
    }
}
