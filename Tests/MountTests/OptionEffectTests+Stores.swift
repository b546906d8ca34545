import Foundation
import Testing

/// Where a store is, and what only some of them have.
extension OptionEffect {
    static let ofStores = [
        OptionEffect("endpoint", "region") {
            let requests = try await recorded(["region=eu-west-1"]) { try await $0.sh("printf x >file") }
            #expect(requests.contains { $0.method == "PUT" && $0.target == "/pail/file" })
            // The store tells its own region then.
            #expect(requests.first?["authorization"]?.contains("/eu-west-1/s3/") == true)
        },
        OptionEffect("path-style") {
            let places = [
                ("yes", "http://s3.us-east-1.amazonaws.com/pail/file"),
                ("no", "http://pail.s3.us-east-1.amazonaws.com/file"),
            ]
            for (style, place) in places {
                try await withStore { world, store in
                    try await withRecorder(world, to: store.endpoint) { recorder in
                        try await world.mount([
                            "endpoint=http://s3.us-east-1.amazonaws.com", "path-style=\(style)",
                            "proxy=\(recorder.endpoint)",
                        ])
                        try await world.sh("printf x >file")
                        #expect(recorder.requests.contains { $0.method == "PUT" && $0.target == place })
                        try await world.unmount()
                    }
                }
            }
        },
        OptionEffect("signature") {
            for (signature, beginning) in [("v1", "OSS pailstore:"), ("v4", "OSS4-HMAC-SHA256 ")] {
                let requests = try await recorded(at: .oss, ["signature=\(signature)"])
                let signed = requests.compactMap { $0["authorization"] }
                #expect(!signed.isEmpty && signed.allSatisfy { $0.hasPrefix(beginning) }, "\(signed)")
            }
        },
        OptionEffect("storage-class", "acl", "sse", "sse-key", "sse-context") {
            let options = [
                "storage-class=STANDARD_IA", "acl=public-read", "sse=aws:kms", "sse-key=key-1",
                "sse-context=eyJhIjoiYiJ9", "part-size=5MiB",
            ]
            let requests = try await recorded(options) { world in
                try await world.sh(
                    "printf x >small; head -c 6000000 /dev/urandom >large; mv small moved; chmod 600 moved")
            }
            let making = requests.filter(\.makesAnObject)
            #expect(making.contains { $0.method == "POST" } && making.contains { $0["x-amz-copy-source"] != nil })
            for request in making {
                #expect(request["x-amz-storage-class"] == "STANDARD_IA", "\(request)")
                #expect(request["x-amz-acl"] == "public-read", "\(request)")
                #expect(request["x-amz-server-side-encryption"] == "aws:kms", "\(request)")
                #expect(request["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1", "\(request)")
                #expect(request["x-amz-server-side-encryption-context"] == "eyJhIjoiYiJ9", "\(request)")
            }
        },
        OptionEffect("storage-class-min") {
            let options = ["storage-class=STANDARD_IA", "storage-class-min=128KiB", "part-size=5MiB"]
            let requests = try await recorded(options) { world in
                try await world.sh(
                    """
                    head -c 131071 /dev/zero >small; head -c 131072 /dev/zero >usual; head -c 6000000 /dev/zero >large
                    mkdir d; mv small d/small; mv usual d/usual
                    chmod 600 d/small d/usual
                    """)
            }
            var count = 0
            for request in requests where request.makesAnObject {
                let isSmall = request.target.hasSuffix("small") || request.target.hasSuffix("d/")
                // A change of attributes copies the object, and restates its class.
                let isChange = request["x-amz-copy-source"].map { "/" + $0 } == request.target
                let small = isChange ? "STANDARD" : nil
                #expect(request["x-amz-storage-class"] == (isSmall ? small : "STANDARD_IA"), "\(request)")
                count += 1
            }
            #expect(count == 8, "three files, a directory, two renames and two changes")
            try await Provider.kodo.withPailstore { world, _ in
                try await world.mount(["storage-class=LINE", "storage-class-min=128KiB"])
                try await world.sh(
                    """
                    head -c 131071 /dev/zero >small; head -c 131072 /dev/zero >usual; head -c 9000000 /dev/zero >large
                    for file in small usual large; do getfattr --only-values -n user.pailfs.storage-class $file; echo; done \
                        >$T/classes
                    test "$(echo $(cat $T/classes))" = "STANDARD LINE LINE"
                    """)
                try await world.unmount()
            }
        },
        OptionEffect("requester-pays") {
            for provider in [Provider.s3, .oss] {
                try await provider.withPailstore { world, store in
                    world.expectsErrorsInLog = true
                    try await store.setFaults("kind=requester-pays")
                    let bare = try await world.pailfs(["ls", world.bucket.url, "-o", world.options([])])
                    #expect(!bare.succeeded, "\(bare)")
                    try await world.mount(["requester-pays", "part-size=5MiB"])
                    try await world.sh(
                        """
                        printf x >small; head -c 6000000 /dev/zero >large; mv small moved; chmod 600 moved
                        ls -l; rm large; test "$(cat moved)" = x
                        """)
                    let url = try await world.pailfs(
                        ["presign", "\(world.bucket.url)/moved", "-o", world.options(["requester-pays"])])
                    let address = url.output.trimmingCharacters(in: .whitespacesAndNewlines)
                    #expect(try await world.sh("curl -sf '\(address)'") == "x")
                    try await world.unmount()
                    try await store.setFaults()
                }
            }
        },
        OptionEffect("sse-customer-key-file") {
            try await withStore { world, _ in
                try await world.sh("head -c 32 /dev/urandom >$T/key; head -c 32 /dev/urandom >$T/other")
                world.expectsErrorsInLog = true
                func key(_ name: String) -> String { "sse-customer-key-file=\(world.scratch.path(name))" }
                try await world.mount([key("key")])
                try await world.sh("printf secret >file")
                try await world.unmount()
                for (options, isRead) in [([key("key")], true), ([key("other")], false), ([], false)] {
                    try await world.mount(options, cache: "cache \(options) \(isRead)")
                    let outcome = try await world.attempt("cat file")
                    #expect(outcome.succeeded == isRead && (outcome.output == "secret") == isRead, "\(outcome)")
                    try await world.unmount()
                }
                let unnamed = try await world.pailfs(["stat", world.bucket.url + "/file", "-o", world.options([])])
                #expect(unnamed.status == 1 && unnamed.errors.contains("set sse-customer-key-file"), "\(unnamed)")
                try await world.outside("put", "plain", world.scratch.path("key"))
                let other = try await world.pailfs(
                    ["stat", world.bucket.url + "/plain", "-o", world.options([key("other")])])
                #expect(other.status == 1 && other.errors.contains("leave sse-customer-key-file out"), "\(other)")
            }
        },
        OptionEffect("traffic-limit") {
            let requests = try await recorded(at: .cos, ["traffic-limit=8192000"])
            let transfers = requests.filter { $0.together > 0 && $0.target.hasSuffix("/file") }
            #expect(Set(transfers.map(\.method)) == ["GET", "PUT"])
            #expect(transfers.allSatisfy { $0["x-cos-traffic-limit"] == "8192000" })
        },
        OptionEffect("callback-url", "callback-body", "callback-type", "callback-host", "callback-var") {
            try await showCallbacks(of: .oss, upload: "PUT")
            try await showCallbacks(of: .kodo, upload: "POST")
        },
        OptionEffect("mime-limit", "detect-mime", "insert-only") { try await showPolicies() },
        OptionEffect("auth-url") {
            try await Provider.swift.withWorld { world in
                try await withRecorder(world, to: world.bucket.endpoint) { recorder in
                    let path = URL(string: world.bucket.endpoint)?.path ?? ""
                    try await world.mount(["endpoint=http://127.0.0.1:9", "auth-url=\(recorder.endpoint)\(path)"])
                    try await world.sh("printf x >file")
                    #expect(recorder.requests.contains { $0.target == path && $0["x-auth-user"] != nil })
                    try await world.unmount()
                }
            }
        },
        OptionEffect("download-domain") {
            try await Provider.kodo.withPailstore { world, _ in
                try await putFile(world, "file")
                try await withRecorder(world, to: world.bucket.endpoint) { recorder in
                    try await world.mount(["download-domain=http://pail.localhost:\(recorder.port)"])
                    try await world.sh("test \"$(cat file)\" = content")
                    #expect(recorder.requests.map(\.method) == ["GET"], "what is read, and nothing else")
                    try await world.unmount()
                }
            }
        },
        OptionEffect("cname-exclude") {
            try await Provider.oss.withPailstore(arguments: ["--domain", "oss.pailfs.test"]) { world, _ in
                try await withRecorder(world, to: world.bucket.endpoint) { recorder in
                    let options = [
                        "endpoint=http://oss.pailfs.test", "proxy=\(recorder.endpoint)", "path-style=no",
                    ]
                    // Taken for a domain that is bound to a bucket.
                    let bound = try await world.pailfs(
                        ["mount", world.bucket.url, world.mountpoint, "-o", world.options(options)])
                    #expect(!bound.succeeded)
                    #expect(Set(recorder.requests.map { $0["host"] }) == ["oss.pailfs.test"])
                    let before = recorder.requests.count
                    try await world.mount(options + ["cname-exclude=pailfs.test"])
                    try await world.sh("printf x >file")
                    #expect(
                        Set(recorder.requests.dropFirst(before).map { $0["host"] }) == ["pail.oss.pailfs.test"])
                    try await world.unmount()
                }
            }
        },
    ]

    /// Of a callback that fails, and of one that is answered.
    private static func showCallbacks(of provider: Provider, upload: String) async throws {
        try await provider.withPailstore { world, store in
            let options = [
                "callback-url=http://app.example/stored", "callback-type=json", "callback-host=other.example",
                "callback-var=user=jane", "callback-body={\"user\": $(x:user)}", "log-level=debug",
            ]
            try await withRecorder(world, to: world.bucket.endpoint) { recorder in
                try await world.mount(["endpoint=\(recorder.endpoint)"] + options)
                try await world.sh("mkdir d; printf 12345 >d/file; head -c 9000000 /dev/zero >large")
                let reason = "getfattr --only-values -n user.pailfs.lasterror"
                try await world.sh(
                    """
                    for file in d/file large; do \(reason) $file | grep -qi '^callback: .*callback.*failed'; done
                    grep -q 'its callback failed.*d/file' $T/pailfs.log
                    test "$(cat d/file)" = 12345; ls -l
                    """)
                let path = provider == .kodo ? "/" : "/pail/d/file"
                let sent = recorder.requests.filter { $0.method == upload && $0.target == path }
                // The marker of the directory goes to Kodo in a form as well.
                #expect(sent.count == (provider == .kodo ? 2 : 1), "\(sent)")
                if provider == .oss {
                    let text = try #require(sent.first?["x-oss-callback"])
                    let callback = String(decoding: Data(base64Encoded: text) ?? Data(), as: UTF8.self)
                    for part in ["http://app.example/stored", "other.example", "application/json", "(x:user)"] {
                        #expect(callback.contains(part), "\(callback)")
                    }
                    #expect(
                        sent.first?["x-oss-callback-var"] == Data("{\"x:user\":\"jane\"}".utf8).base64EncodedString())
                }
                try await store.setFaults("kind=callback-answered")
                try await world.sh(
                    """
                    printf 1 >answered; head -c 9000000 /dev/zero >large2
                    for file in answered large2; do if \(reason) $file 2>/dev/null; then exit 1; fi; done
                    grep -q 'a callback is answered' $T/pailfs.log
                    """)
                if provider == .kodo { try await world.sh("grep -q 'user.*jane' $T/pailfs.log") }
                try await store.setFaults()
                try await world.unmount()
            }
        }
    }

    private static func showPolicies() async throws {
        try await Provider.kodo.withPailstore { world, _ in
            world.expectsErrorsInLog = true
            try await world.mount(["mime-limit=text/plain;image/*", "insert-only"])
            try await world.sh(
                """
                refused() { ! LC_ALL=C sh -c "$1" 2>$T/refused; grep -q 'Permission denied' $T/refused; }
                printf 1 >a.txt; printf 1 >b.png; mkdir d
                refused 'printf 2 | dd of=c.zip status=none'; rm c.zip
                refused 'printf 2 | dd of=b.png status=none'; rm b.png
                printf 2 >b.png; mv b.png d/b.png; chmod 600 d/b.png; cp a.txt d/b.png; mv a.txt d/a.txt
                """)
            let keys = try await world.outside("keys").split(separator: "\n")
            #expect(Set(keys).isSuperset(of: ["d/a.txt", "d/b.png"]) && !keys.contains("c.zip"), "\(keys)")
            try await world.unmount()
            try await world.mount(["detect-mime"], cache: "another")
            try await world.sh("printf 1 >page.html; printf 1 >none")
            try await world.unmount()
            try await world.mount(cache: "third")
            try await world.sh(
                """
                test "$(getfattr --only-values -n user.pailfs.content-type page.html)" = text/html
                test "$(getfattr --only-values -n user.pailfs.content-type none)" = application/octet-stream
                """)
            try await world.unmount()
        }
    }

    /// The requests of a mount of another provider that writes `file` and reads it anew.
    private static func recorded(at provider: Provider, _ options: [String]) async throws -> [RecordedRequest] {
        var requests: [RecordedRequest] = []
        try await provider.withPailstore { world, _ in
            try await withRecorder(world, to: world.bucket.endpoint) { recorder in
                let options = ["endpoint=\(recorder.endpoint)"] + options
                try await world.mount(options)
                try await world.sh("printf x >file")
                try await world.unmount()
                try await world.mount(options, cache: "another")
                try await world.sh("cat file")
                try await world.unmount()
                requests = recorder.requests
            }
        }
        return requests
    }
}
