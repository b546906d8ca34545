import Foundation
import Testing

/// How a mount asks, whatever the store is.
extension OptionEffect {
    static let ofRequests = [
        OptionEffect("part-size") {
            try await withMount("part-size=6MiB") { world, store in
                try await world.sh("head -c 20000000 /dev/urandom >file")
                let sizes = store.requests.filter { $0.operation == "UploadPart" }.map(\.bytesIn)
                #expect(sizes.sorted() == [20_000_000 - 18 << 20, 6 << 20, 6 << 20, 6 << 20])
                try await set(world, "part-size=5MiB")
                try await world.killWorker()
                try await world.sh("head -c 10485760 /dev/urandom >another")
                let more = store.requests.filter { $0.operation == "UploadPart" }.map(\.bytesIn).dropFirst(4)
                #expect(Array(more) == [5 << 20, 5 << 20])
            }
        },
        OptionEffect("downloads") {
            try await withStore { world, store in
                try await putFiles(world)
                try await withRecorder(world, to: store.endpoint) { recorder in
                    try await world.mount(["endpoint=\(recorder.endpoint)", "downloads=3"])
                    try await together(3, "GET", recorder, readFiles("a"), world)
                    try await set(world, "downloads=2")
                    try await together(2, "GET", recorder, readFiles("b"), world)
                    // Fetches that go on and on leave room for everything else.
                    try await recorder.hold("GET", until: 9)
                    let readers = try world.start(readFiles("c"))
                    _ = await poll(for: .seconds(30)) { recorder.most("GET") >= 2 ? true : nil }
                    try await world.sh("mkdir new; printf x >new/file; ls -l new; rm -r new")
                    try await recorder.hold()
                    #expect(await readers.wait(deadline: .seconds(60)).succeeded)
                    try await world.unmount()
                }
            }
        },
        OptionEffect("uploads") {
            try await withStore { world, store in
                try await putFiles(world)
                try await withRecorder(world, to: store.endpoint) { recorder in
                    try await world.mount(["endpoint=\(recorder.endpoint)", "uploads=3"])
                    let write = "for i in {1..8}; do printf %s $RANDOM$i >w$i & done; wait"
                    try await together(3, "PUT", recorder, write, world)
                    try await set(world, "uploads=2")
                    try await together(2, "PUT", recorder, write, world)
                    try await recorder.hold("PUT", until: 9)
                    let writers = try world.start(write)
                    _ = await poll(for: .seconds(30)) { recorder.most("PUT") >= 2 ? true : nil }
                    try await world.sh(readFiles("a"))
                    try await recorder.hold()
                    #expect(await writers.wait(deadline: .seconds(60)).succeeded)
                    try await world.unmount()
                }
            }
        },
        OptionEffect("upload-limit", "download-limit") {
            try await withMount("upload-limit=1MiB", "download-limit=1MiB@00:00") { world, _ in
                let status = try await world.pailfs(["status", "--json", world.mountpoint]).output
                #expect(status.contains("\"uploadBytes\" : 1048576") && status.contains("\"downloadBytes\" : 1048576"))
                func time(_ script: String) async throws -> Duration {
                    let start = ContinuousClock.now
                    try await world.sh(script)
                    return ContinuousClock.now - start
                }
                // A tenth of a second's bytes may go at once.
                try await world.sh("head -c 3145728 /dev/urandom >$T/big")
                #expect(try await time("cp $T/big file") >= .seconds(2.6))
                try await world.unmount()
                try await world.mount(["download-limit=1MiB"], cache: "another")
                #expect(try await time("cmp $T/big file") >= .seconds(2.6))
                try await set(world, "download-limit=off")
                let without = try await world.pailfs(["status", "--json", world.mountpoint]).output
                #expect(!without.contains("downloadBytes"))
            }
        },
        OptionEffect("request-limit") {
            try await withMount("request-limit=10", "ttl=0") { world, _ in
                let start = ContinuousClock.now
                try await world.sh("for i in {1..15}; do printf x >file$i; done")
                #expect(ContinuousClock.now - start >= .seconds(1.3))
            }
        },
        OptionEffect("retries") {
            for (retries, isEnough) in [("0", false), ("8", true)] {
                try await withMount("retries=\(retries)") { world, store in
                    world.expectsErrorsInLog = true
                    try await putFile(world, "file")
                    // As often as one transfer is tried; the kernel tries again by itself what it caches.
                    try await store.setFaults("op=GetObject,count=8,kind=status:500")
                    #expect(
                        try await world.attempt(
                            "dd if=file bs=4096 iflag=direct status=none"
                        ).succeeded == isEnough)
                }
            }
        },
        OptionEffect("timeout") {
            for (timeout, isEnough) in [("1", false), ("30", true)] {
                try await withMount("timeout=\(timeout)", "ttl=0") { world, store in
                    world.expectsErrorsInLog = true
                    try await putFile(world, "a/file")
                    try await store.setFaults("op=ListObjectsV2,kind=first-byte:4s")
                    #expect(try await world.attempt("ls a").succeeded == isEnough)
                    try await store.setFaults()
                }
            }
        },
        OptionEffect("connect-timeout") {
            // The first connection is never answered.
            for (connect, timeout, isEnough) in [("1h", "1", false), ("300ms", "10", true)] {
                try await withTLS("--silent-first") { world, _, options in
                    let more = ["connect-timeout=\(connect)", "timeout=\(timeout)"]
                    let outcome = try await world.pailfs(
                        ["mount", world.bucket.url, world.mountpoint, "-o", world.options(options + more)])
                    #expect(outcome.succeeded == isEnough, "\(outcome)")
                    if isEnough { #expect(try await world.pailfs(["unmount", world.mountpoint]).succeeded) }
                }
            }
        },
        OptionEffect("transfer-timeout") {
            for (options, isEnough) in [(["transfer-timeout=1"], false), ([], true)] {
                try await withStore { world, store in
                    world.expectsErrorsInLog = true
                    try await world.mount(options + ["timeout=1", "retries=0"])
                    try await world.sh("head -c 500000 /dev/urandom >$T/put")
                    try await world.outside("put", "file", world.scratch.path("put"))
                    try await store.setFaults("op=GetObject,kind=bandwidth:200K/s")
                    #expect(try await world.attempt("cat file >/dev/null").succeeded == isEnough)
                    try await store.setFaults()
                }
            }
        },
        OptionEffect("checksums") {
            for (checksums, isRead) in [("verify", false), ("ignore", true)] {
                try await withMount("checksums=\(checksums)", "timeout=1", "retries=0") { world, store in
                    world.expectsErrorsInLog = true
                    try await putFile(world, "file")
                    try await store.setFaults("op=GetObject,kind=alter")
                    let outcome = try await world.attempt("cat file")
                    #expect(outcome.succeeded == isRead && outcome.output != "content", "\(outcome)")
                    try await store.setFaults()
                }
            }
        },
        OptionEffect("redirects") {
            let (here, there) = ("pail.s3.us-east-1.amazonaws.com", "pail.s3.eu-west-1.amazonaws.com")
            for (redirects, isFollowed) in [("refuse", false), ("follow", true)] {
                try await withStore { world, store in
                    try await withRecorder(world, to: store.endpoint, "--redirect", here, "http://\(there)") {
                        recorder in
                        let options = world.options([
                            "endpoint=http://s3.us-east-1.amazonaws.com", "path-style=no", "timeout=5",
                            "proxy=\(recorder.endpoint)", "redirects=\(redirects)",
                        ])
                        let outcome = try await world.pailfs(
                            ["mount", world.bucket.url, world.mountpoint, "-o", options])
                        #expect(outcome.succeeded == isFollowed, "\(outcome)")
                        let hosts = Set(recorder.requests.compactMap { $0["host"] })
                        #expect(hosts == (isFollowed ? [here, there] : [here]))
                        if isFollowed { #expect(try await world.pailfs(["unmount", world.mountpoint]).succeeded) }
                    }
                }
            }
        },
        OptionEffect("doh") {
            try await withTLS { world, resolver, options in
                let port = world.bucket.endpoint.split(separator: ":").last ?? ""
                try await world.mount(
                    options + [
                        "endpoint=http://store.pailfs.test:\(port)",
                        "doh=https://127.0.0.1:\(resolver.port)/dns-query",
                    ])
                try await world.sh("printf x >file")
                #expect(Set(resolver.requests.map(\.target)) == ["/dns-query"])
                try await world.unmount()
            }
        },
        OptionEffect("proxy") {
            try await withStore { world, store in
                try await withRecorder(world, to: store.endpoint) { recorder in
                    try await world.mount(["proxy=\(recorder.endpoint)", "endpoint=http://store.pailfs.test"])
                    try await world.sh("printf x >file")
                    #expect(recorder.requests.contains { $0.target == "http://store.pailfs.test/pail/file" })
                    try await world.unmount()
                }
            }
        },
        OptionEffect("ca-file") {
            try await withTLS { world, store, options in
                let unknown = try await world.pailfs(
                    [
                        "mount", world.bucket.url, world.mountpoint, "-o",
                        world.options(options.filter { !$0.hasPrefix("ca-file") }),
                    ])
                #expect(!unknown.succeeded)
                #expect(store.requests.isEmpty)
                try await world.mount(options)
                try await world.sh("printf x >file")
                #expect(store.requests.contains { $0.target == "/pail/file" })
                try await world.unmount()
                // The file is believed alone: not a certificate that the system's directory has besides.
                let place = try #require(options.first { $0.hasPrefix("endpoint") })
                let before = store.requests.count
                try await world.sh(
                    """
                    openssl req -x509 -newkey rsa:2048 -nodes -keyout $T/otherkey -out $T/other -days 1 \
                        -subj /CN=other 2>$T/other.log
                    unset AWS_CA_BUNDLE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE SSL_CERT_FILE
                    export P=\(Programs.pailfs) O="\(world.options([place]))" U=\(world.bucket.url)
                    exec unshare --mount bash -euc '
                        cp /etc/ssl/certs/ca-certificates.crt $T/bundle
                        mount -t tmpfs tmpfs /etc/ssl/certs
                        cp $T/bundle /etc/ssl/certs/ca-certificates.crt
                        cp $T/cert /etc/ssl/certs/$(openssl x509 -noout -hash -in $T/cert).0
                        $P ls $U -o $O
                        if $P ls $U -o $O,ca-file=$T/other 2>$T/refused; then exit 9; fi
                        grep -q "no certificate that this machine trusts" $T/refused'
                    """)
                #expect(store.requests.count > before)
            }
        },
        OptionEffect("client-cert", "client-key") {
            try await withStore { world, store in
                try await world.sh(
                    """
                    for name in cert own; do
                        openssl req -x509 -newkey rsa:2048 -nodes -keyout $T/$name.key -out $T/$name -days 1 -subj /CN=$name \
                            -addext subjectAltName=IP:127.0.0.1 2>$T/openssl.log
                    done
                    cat $T/own $T/own.key >$T/both
                    """)
                let (certificate, own) = (world.scratch.path("cert"), world.scratch.path("own"))
                let recorder = try await Recorder.start(
                    in: world.scratch, to: store.endpoint,
                    ["--tls", certificate, certificate + ".key", "--client", own])
                func list(_ options: String...) async throws -> Outcome {
                    let place = ["endpoint=https://127.0.0.1:\(recorder.port)", "ca-file=\(certificate)", "timeout=2"]
                    return try await world.pailfs(["ls", world.bucket.url, "-o", world.options(place + options)])
                }
                #expect(try await list().status == 1)
                #expect(try await list("client-cert=\(own)", "client-key=\(own).key").succeeded)
                #expect(try await list("client-cert=\(world.scratch.path("both"))").succeeded)
                let gone = try await list("client-cert=/none")
                #expect(gone.errors.contains("the client-cert /none cannot be read"), "\(gone)")
                let half = try await list("client-key=\(own).key")
                #expect(
                    half.status == 1 && half.errors.contains("does nothing without client-cert; set client-cert too"),
                    "\(half)")
                await recorder.stop()
            }
        },
        OptionEffect("user-agent", "user-agent-mark", "user-agent-system") {
            let agents = [
                (["user-agent=tester/1"], /tester\/1/),
                (["user-agent-mark=for/2", "user-agent-system"], /pailfs\/[^ ]+ \(Linux [^ ]+; [^ ]+\) for\/2/),
            ]
            for (options, agent) in agents {
                let requests = try await recorded(options) { try await $0.sh("printf x >file") }
                for request in requests {
                    #expect(request["user-agent"]?.wholeMatch(of: agent) != nil, "\(request.headers)")
                }
            }
        },
        OptionEffect("header-for") { try await showHeaders() },
        OptionEffect("header") {
            let requests = try await recorded(["header=X-One: 1", "header=X-Two: a b"]) {
                try await $0.sh("printf x >file")
            }
            #expect(requests.allSatisfy { $0["x-one"] == "1" && $0["x-two"] == "a b" })
        },
    ]

    private static func showHeaders() async throws {
        let options = [
            "header-for=*.gz: Content-Encoding: gzip", "header-for=*.gz: X-Amz-Meta-Team: red", "part-size=5MiB",
        ]
        let requests = try await recorded(options) { world in
            try await world.sh(
                """
                printf x >a.gz; printf x >b.txt; head -c 6000000 /dev/urandom >large.gz; printf x >t; mv t moved.gz
                test "$(getfattr --only-values -n user.pailfs.content-encoding large.gz)" = gzip
                """)
        }
        var found: [String: RecordedRequest] = [:]
        for request in requests where request.makesAnObject {
            found[String(request.target.dropFirst("/pail/".count).prefix { $0 != "?" })] = request
        }
        for (name, encoding, team) in [("a.gz", "gzip", "red"), ("large.gz", "gzip", "red"), ("b.txt", nil, nil)] {
            #expect(found[name] != nil, "\(name)")
            #expect(found[name]?["content-encoding"] == encoding, "\(name)")
            #expect(found[name]?["x-amz-meta-team"] == team, "\(name)")
        }
        #expect(found["moved.gz"]?["x-amz-copy-source"] != nil)
        #expect(found["moved.gz"]?["content-encoding"] == "gzip")
    }

    /// The requests of a mount with `options` while it does `act`.
    static func recorded(
        _ options: [String], _ act: (World) async throws -> Void
    ) async throws -> [RecordedRequest] {
        var requests: [RecordedRequest] = []
        try await withStore { world, store in
            try await withRecorder(world, to: store.endpoint) { recorder in
                try await world.mount(["endpoint=\(recorder.endpoint)"] + options)
                try await act(world)
                try await world.unmount()
                requests = recorder.requests
            }
        }
        #expect(!requests.isEmpty)
        return requests
    }

    /// A world whose store, or what else a mount asks, speaks TLS with a certificate that it signed itself; with the
    /// options of a mount that gets there.
    private static func withTLS(
        _ options: String..., body: (World, Recorder, [String]) async throws -> Void
    ) async throws {
        try await withStore { world, store in
            try await world.sh(
                """
                openssl req -x509 -newkey rsa:2048 -nodes -keyout $T/key -out $T/cert -days 1 -subj /CN=here \
                    -addext subjectAltName=IP:127.0.0.1 2>$T/openssl.log
                """)
            let (certificate, key) = (world.scratch.path("cert"), world.scratch.path("key"))
            let recorder = try await Recorder.start(
                in: world.scratch, to: store.endpoint, ["--tls", certificate, key] + options)
            let place = ["endpoint=https://127.0.0.1:\(recorder.port)", "ca-file=\(certificate)"]
            do { try await body(world, recorder, place) } catch {
                await recorder.stop()
                throw error
            }
            await recorder.stop()
        }
    }

    // MARK: many at once

    private static func readFiles(_ folder: String) -> String {
        "for i in {1..8}; do cat \(folder)/$i >/dev/null & done; wait"
    }

    /// Those that `readFiles` reads.
    private static func putFiles(_ world: World) async throws {
        try await world.sh(
            """
            cd /; "$PYTHON" -c 'import sys; sys.path.insert(0, "\(Programs.helper(""))")
            from bucket import store
            for folder in "abc":
                for number in range(1, 9): store.put_bytes(f"{folder}/{number}", b"content")'
            """)
    }

    /// Runs `script`, which could have eight transfers of `method` under way; the mount has as many as it may.
    private static func together(
        _ count: Int, _ method: String, _ recorder: Recorder, _ script: String, _ world: World
    ) async throws {
        let before = recorder.requests.count
        try await recorder.hold(method, until: count)
        try await world.sh(script)
        try await recorder.hold()
        #expect(recorder.most(method, since: before) == count, "\(method)")
    }

    private static func set(_ world: World, _ option: String) async throws {
        let outcome = try await world.pailfs(["set", world.mountpoint, option])
        #expect(outcome.succeeded, "\(outcome)")
    }
}
