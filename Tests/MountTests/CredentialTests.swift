import Foundation
import Glibc
import Testing

extension RealMounts {
    /// Keys that change while a bucket is mounted.
    @Suite struct Credentials {
        /// The store knows other keys from one moment to the next, as when a key is replaced in the provider's console.
        @Test(.timeLimit(.minutes(5)), arguments: Provider.ofPailstore)
        func aFileThatWasReplacedIsReadAgain(_ provider: Provider) async throws {
            try await provider.withPailstore { world, store in
                world.expectsErrorsInLog = true
                let path = world.scratch.path("keys")
                func keys(_ id: String, _ secret: String) throws {
                    let text = "PAILFS_ACCESS_KEY_ID=\(id)\nPAILFS_SECRET_ACCESS_KEY=\(secret)\n"
                    try text.write(toFile: path + ".new", atomically: false, encoding: .utf8)
                    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path + ".new")
                    try #require(rename(path + ".new", path) == 0)
                }
                try keys("first", "one")
                try await store.setFaults("kind=rotate-key:first:one")
                try await world.mount(["ttl=0", "credentials-file=\(path)"])
                try await world.sh("for file in 1 2 3 4 5 6 7 8; do printf $file >$file; done")
                try keys("second", "two")
                try await store.setFaults("kind=rotate-key:second:two")
                let read = try await world.sh(
                    """
                    readers=
                    for file in 1 2 3 4 5 6 7 8; do cat $file >$T/read.$file & readers="$readers $!"; done
                    for reader in $readers; do wait $reader; done
                    printf new >new
                    cat $T/read.* new
                    """)
                #expect(read == "12345678new")
                try await store.setFaults("kind=rotate-key:third:three")
                let refused = try await world.attempt("cat 1")
                #expect(refused.errors.contains("Permission denied"), "\(refused)")
                try keys("third", "three")
                let last = try await world.sh("sleep 1.2; cat 1; printf last >last; cat last")
                #expect(last == "1last")
            }
        }

        /// An identity service and a store that want a certificate of this machine, and are named by the variables alone.
        @Test(.timeLimit(.minutes(5))) func theCertificateOfOpenStacksVariablesIsShown() async throws {
            try await Provider.swift.withWorld { world in
                try await world.sh(
                    """
                    for name in cert own; do
                        openssl req -x509 -newkey rsa:2048 -nodes -keyout $T/$name.key -out $T/$name -days 1 -subj /CN=$name \
                            -addext subjectAltName=IP:127.0.0.1 2>$T/openssl.log
                    done
                    """)
                let (certificate, own) = (world.scratch.path("cert"), world.scratch.path("own"))
                let recorder = try await Recorder.start(
                    in: world.scratch, to: world.bucket.endpoint,
                    ["--tls", certificate, certificate + ".key", "--client", own])
                let outcome = try await world.attempt(
                    """
                    cd $T; account=$(curl -sSi -H "X-Auth-User: $ST_USER" -H "X-Auth-Key: $ST_KEY" $ST_AUTH \
                        | tr -d '\\r' | sed -n 's|^X-Storage-Url: http://[^/]*||ip')
                    export OS_AUTH_URL=https://127.0.0.1:\(recorder.port)/auth/v1.0 OS_AUTH_VERSION=1.0 OS_USERNAME=$ST_USER \
                        OS_PASSWORD=$ST_KEY OS_STORAGE_URL=https://127.0.0.1:\(recorder.port)$account OS_CACERT=\(certificate)
                    unset ${!PAILFS_*} ${!ST_*}
                    if \(Programs.pailfs) ls \(world.bucket.url); then exit 9; fi
                    OS_CERT=$T/gone \(Programs.pailfs) ls \(world.bucket.url) || true
                    export OS_CERT=\(own) OS_KEY=\(own).key
                    exec \(Programs.pailfs) ls \(world.bucket.url)
                    """)
                await recorder.stop()
                #expect(outcome.succeeded, "\(outcome)")
                #expect(outcome.errors.contains("the OS_CERT") && outcome.errors.contains("set OS_CERT to a PEM file"))
                #expect(recorder.requests.contains { $0.target.hasPrefix("/v1/AUTH_") }, "\(recorder.requests)")
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
