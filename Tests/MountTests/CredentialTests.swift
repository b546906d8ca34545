import Foundation
import Testing

extension RealMounts {
    /// Keys that change while a bucket is mounted.
    @Suite struct Credentials {
        /// The store knows other keys from one moment to the next, as when a key is replaced in the provider's console.
        @Test(.timeLimit(.minutes(5)), arguments: Provider.ofPailstore)
        func aFileThatWasReplacedIsReadAgain(_ provider: Provider) async throws {
            try await provider.withPailstore { world, _ in
                world.expectsErrorsInLog = true
                let port = try await world.portOfPailstore()
                let outcome = try await world.attempt(
                    """
                    P=\(Programs.pailfs); cd $T; unset ${!PAILFS_*} ${!AWS_*}; export AWS_EC2_METADATA_DISABLED=true
                    start() {
                        rm -f ready; \(Programs.pailstore) shop --listen 127.0.0.1:\(port) --bucket \(world.bucket.name) \\
                            --log-requests requests --access-key $1 --secret-key $2 >ready 2>store.errors & store=$!
                        until grep -q http ready 2>/dev/null; do sleep .05; done
                    }
                    stop() { kill $store; wait $store || true; }
                    keys() {
                        printf 'PAILFS_ACCESS_KEY_ID=%s\\nPAILFS_SECRET_ACCESS_KEY=%s\\n' $1 $2 >keys.new
                        chmod 600 keys.new; mv keys.new keys
                    }
                    mkdir -p shop; keys first one; start first one
                    E=$(sed -n 's/.*"\(provider.rawValue)": *"\\([^"]*\\)".*/\\1/p' ready)
                    $P mount \(world.bucket.url) $M -o "\(world.options(["ttl=0", "credentials-file=$T/keys"])),endpoint=$E"
                    for file in 1 2 3 4 5 6 7 8; do printf $file >$M/$file; done
                    stop; keys second two; start second two
                    readers=
                    for file in 1 2 3 4 5 6 7 8; do cat $M/$file >read.$file & readers="$readers $!"; done
                    for reader in $readers; do wait $reader; done
                    printf new >$M/new
                    cat read.*; cat $M/new; echo
                    stop; start third three
                    if cat $M/1 2>refused; then exit 9; fi
                    grep -o 'Permission denied' refused
                    keys third three; sleep 1.2; cat $M/1; printf 'last' >$M/last; cat $M/last
                    \(Programs.pailfs) unmount $M; stop
                    """)
                #expect(outcome.succeeded, "\(outcome)")
                #expect(outcome.output == "12345678new\nPermission denied\n1last", "\(outcome)")
                #expect(!world.isMounted)
            }
        }

        /// The message names what is wrong with a key, wherever the key comes from.
        @Test(.timeLimit(.minutes(5)), arguments: Provider.ofPailstore)
        func aLineBreakInAKeyIsNamed(_ provider: Provider) async throws {
            try await provider.withPailstore { world, _ in
                let outcome = try await world.attempt(
                    """
                    export PAILFS_SECRET_ACCESS_KEY=$(printf 'secret\\n.'); PAILFS_SECRET_ACCESS_KEY=${PAILFS_SECRET_ACCESS_KEY%.}
                    exec \(Programs.pailfs) mount \(world.bucket.url) $M -o '\(world.options([]))'
                    """)
                #expect(!outcome.succeeded && !world.isMounted)
                #expect(outcome.errors.contains("the secret of the credentials has a line break in it"), "\(outcome)")
            }
        }
    }
}
