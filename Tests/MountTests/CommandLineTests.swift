import Foundation
import Testing

/// What commands say that need no mount.
@Suite struct CommandLineTests {
    /// `$P` is pailfs, `$T` the scratch folder.
    private func run(_ script: String, deadline: Duration = .seconds(60)) async throws -> Outcome {
        let scratch = try Scratch()
        defer { scratch.remove() }
        let variables = [
            "P": Programs.pailfs, "S": Programs.pailstore, "ROOT": Programs.root, "PAILFS_ACCESS_KEY_ID": "a",
            "PAILFS_SECRET_ACCESS_KEY": "b",
        ]
        let child = try Child(
            ["bash", "-euo", "pipefail", "-c", script], environment: scratch.environment(variables),
            directory: scratch.directory, scratch: scratch)
        return await child.wait(deadline: deadline)
    }

    @Test(arguments: ["version", "-V", "--version"])
    func theVersionIsPrinted(_ word: String) async throws {
        let outcome = try await run("exec $P \(word)")
        #expect(outcome.succeeded && outcome.output.hasPrefix("pailfs "), "\(outcome)")
    }

    @Test(arguments: ["help status", "status --help", "help cache", "ls -h", "ls --help", "umount --help"])
    func helpIsPrinted(_ words: String) async throws {
        let outcome = try await run("exec $P \(words)")
        #expect(outcome.succeeded && outcome.output.contains("USAGE: pailfs "), "\(outcome)")
    }

    /// As libfaketime and the injectors of observability agents do.
    @Test func argumentsAreFoundWhereALibraryHasMovedTheEnvironment() async throws {
        let outcome = try await run(
            """
            echo '#include <stdlib.h>
            __attribute__((constructor)) static void add(void) { setenv("ADDED", "1", 1); unsetenv("LD_PRELOAD"); }' >add.c
            cc -shared -fPIC -o add.so add.c
            LD_PRELOAD=$T/add.so $P --version; LD_PRELOAD=$T/add.so $S --help | head -n 2
            """)
        #expect(
            outcome.output.hasPrefix("pailfs ") && outcome.output.contains("Serve a local object store"), "\(outcome)")
        #expect(!outcome.output.contains("SUBCOMMANDS"), "\(outcome)")
    }

    @Test func aSilentStoreIsNamedSoonAndGivenUpSooner() async throws {
        let start = ContinuousClock.now
        let outcome = try await run("exec $P ls s3://pail -o endpoint=http://127.0.0.1:9,path-style")
        let lines = outcome.errors.split(separator: "\n")
        #expect(outcome.status == 1 && lines.count == 2, "\(outcome)")
        #expect(lines.first?.contains("127.0.0.1:9 has not answered for 2s") == true, "\(outcome)")
        #expect(lines.last?.contains("cannot be reached") == true, "\(outcome)")
        #expect(ContinuousClock.now - start < .seconds(25))
    }

    @Test func doctorPrintsWhatItFoundBefore() async throws {
        let outcome = try await run("exec $P doctor s3://pail -o endpoint=http://127.0.0.1:9,path-style,timeout=2")
        #expect(outcome.status == 1 && outcome.output.hasPrefix("ok "), "\(outcome)")
        #expect(outcome.output.contains("FAILED   bucket, credentials"), "\(outcome)")
    }

    private static let completions: [(line: String, reply: [String])] = [
        ("pailfs unm", ["unmount"]), ("pailfs cache i", ["info"]), ("pailfs help sta", ["status", "stat"]),
        ("pailfs mount s3://b /m -o cache-s", ["cache-size="]),
        ("pailfs mount s3://b /m -o ro,durable=l", ["local"]),
        ("pailfs mount s3://b /m -o durable=", ["remote", "local"]),
        ("pailfs mount --durab", ["--durable="]), ("pailfs mount --fore", ["--foreground"]),
        ("pailfs ls s3://b --rec", ["--recursive"]), ("pailfs mount s3", ["s3://"]),
        ("pailfs cache info --js", ["--json"]),
    ]

    @Test func completionsOfBashAreOptionsAndValues() async throws {
        for (line, reply) in Self.completions {
            let outcome = try await run(
                """
                PATH=$(dirname "$P"):$PATH; . "$ROOT/scripts/pailfs.bash"; compopt() { :; }
                COMP_LINE='\(line)' COMP_POINT=${#COMP_LINE}
                COMP_POINT=${#COMP_LINE}
                # As Bash splits at its COMP_WORDBREAKS.
                mapfile -t COMP_WORDS < <(sed -E 's/([=:])/ \\1 /g' <<<"$COMP_LINE" | tr -s ' ' '\\n')
                COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
                [ "${COMP_WORDS[COMP_CWORD]}" ] || { unset "COMP_WORDS[$COMP_CWORD]"; COMP_CWORD=$((COMP_CWORD - 1)); }
                _pailfs; printf '%s\\n' "${COMPREPLY[@]}"
                """)
            let found = outcome.output.split(separator: "\n").map(String.init)
            #expect(Set(found) == Set(reply), "\(line): \(outcome)")
        }
    }
}
