import Foundation
import Testing

extension RealMounts {
    /// The commands on objects, which need no mount: what they do is looked at from outside.
    @Suite struct ObjectCommands {
        private static let withProperties: [Provider] = [.s3, .oss, .cos]

        private func run(_ command: String, in world: World) async throws -> Outcome {
            var arguments = command.split(separator: " ").map { word in
                word.hasPrefix("@") ? "\(world.bucket.url)/\(word.dropFirst())" : String(word)
            }
            arguments += ["-o", world.options([])]
            return try await world.pailfs(arguments)
        }

        /// What a command that succeeds prints.
        private func output(_ command: String, in world: World) async throws -> String {
            let outcome = try await run(command, in: world)
            guard outcome.succeeded else { throw ChildFailed(command: "pailfs \(command)", outcome: outcome) }
            return outcome.output
        }

        private func store(_ keys: String..., in world: World) async throws {
            try "content".write(toFile: world.scratch.path("file"), atomically: true, encoding: .utf8)
            for key in keys { try await world.outside("put", key, world.scratch.path("file")) }
        }

        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo, .cssp])
        func keysAreListedAsTheStoreHasThem(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("a", "d/x", "d/y", "d/z/deep", "e%41", in: world)
                #expect(try await output("ls @", in: world) == "a\nd/\ne%41\n")
                #expect(try await output("ls @d", in: world) == "d/x\nd/y\nd/z/\n")
                #expect(try await output("ls -R @d", in: world) == "d/x\nd/y\nd/z/deep\n")
                let long = try await output("ls -l @a", in: world).split(whereSeparator: \.isWhitespace)
                #expect(long.first == "7" && long.last == "a", "\(long)")
                let missing = try await run("ls @d/none/", in: world)
                #expect(missing.status == 1 && missing.errors.contains("d/none"), "\(missing)")
                // Part of a name, a bound, and what programs read.
                try await store("e2/x", "e3", in: world)
                #expect(try await output("ls @e", in: world) == "e%41\ne2/\ne3\n")
                #expect(try await output("ls --limit 2 @", in: world) == "a\nd/\n")
                #expect(try await output("ls --after a --limit 1 @", in: world) == "d/\n")
                #expect(try await output("ls --before d @", in: world) == "a\n")
                #expect(try await output("ls -R --after d/ --before zz @", in: world).hasPrefix("d/"))
                #expect(try await output("ls --after zz @", in: world).isEmpty)
                #expect(try await output("ls --after e2/ @e", in: world) == "e3\n")
                #expect(try await output("ls --after a @a", in: world).isEmpty)
                let lines = try await output("ls -R --json @d", in: world).split(separator: "\n")
                #expect(lines.count == 3 && lines[0].contains(#""bytes":7,"#) && lines[0].contains(#""key":"d/x""#))
                #expect(try await output("ls --json @", in: world).contains(#"{"isPrefix":true,"key":"d/"}"#))
                let stat = try await output("stat --json @a", in: world)
                #expect(stat.contains(#""bytes" : 7"#) && stat.contains(#""key" : "a""#), "\(stat)")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos])
        func encryptionPartsChecksumTagsAndGrantsAreShown(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await world.mount(["sse=AES256", "part-size=1MiB"])
                try await world.sh("head -c 12000000 /dev/zero >big; echo content >small")
                try await world.unmount()
                _ = try await output("tag set @small colour=red", in: world)
                let small = try await output("stat @small", in: world)
                #expect(small.contains("encryption: AES256\n") && !small.contains("parts:"), "\(small)")
                #expect(small.contains(provider == .s3 ? "checksum: " : "crc-64: "), "\(small)")
                #expect(!small.contains("colour"))
                let all = try await output("stat --all @small", in: world)
                #expect(all.contains("tag colour: red\n"), "\(all)")
                #expect(all.contains("acl: ") || all.contains("grants: "), "\(all)")
                // S3 takes no parts below 5 MiB.
                let parts = provider == .s3 ? "parts: 3\n" : "parts: 12\n"
                #expect(try await output("stat @big", in: world).contains(parts))
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo, .cssp])
        func bytesAndObjectsAreCountedByDirectory(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("a", "d/x", "d/z/deep", in: world)
                func words(_ command: String) async throws -> [[Substring]] {
                    try await output(command, in: world).split(separator: "\n").map { $0.split(separator: " ") }
                }
                #expect(
                    try await words("du @") == [["7", "1", "d/z/"], ["14", "2", "d/"], ["21", "3", "."]])
                #expect(try await words("du -d 1 @") == [["14", "2", "d/"], ["21", "3", "."]])
                #expect(try await words("du -sh @d") == [["14B", "2", "d/"]])
                let document = try await output("du -s --json @d", in: world)
                #expect(document == #"{"bytes":14,"key":"d/","objects":2}"# + "\n")
                #expect(try await run("du @none", in: world).errors.contains("has no keys"))
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo, .cssp])
        func objectsAreCopiedAndRemovedAtTheStore(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("d/x", "d/y", "d/z/deep", "dx", in: world)
                _ = try await output("cp @d/x @copies/", in: world)
                _ = try await output("cp @d/x @other --header content-type:text/x-test", in: world)
                #expect(try await world.outside("get", "copies/x") == "content")
                #expect(try await output("stat @other", in: world).contains("content-type: text/x-test"))
                let again = try await run("cp -n @d/y @other", in: world)
                #expect(again.status == 1 && again.errors.contains("leave out -n"), "\(again)")
                #expect(try await output("stat @other", in: world).contains("content-type: text/x-test"))

                _ = try await output("rm @other", in: world)
                #expect(try await output("rm -r @d", in: world) == "3 objects deleted\n")
                #expect(try await world.outside("keys") == "copies/x\ndx\n")
                for nothing in ["rm @other", "rm -r @d"] {
                    let outcome = try await run(nothing, in: world)
                    #expect(outcome.status == 1 && !outcome.errors.isEmpty, "\(outcome)")
                }
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func everySlashOfAURLCounts() async throws {
            try await withStore { world, _ in
                try await store("a/x", "a//y", in: world)
                _ = try await output("cp @a/x @b//", in: world)
                #expect(try await world.outside("keys") == "a//y\na/x\nb//x\n")
                #expect(try await output("ls @a//", in: world) == "a//y\n")
                #expect(try await output("rm -r @a//", in: world) == "1 objects deleted\n")
                for nothing in ["rm -r @a//", "rm @a/x/", "rm @b/"] {
                    let outcome = try await run(nothing, in: world)
                    #expect(outcome.status == 1 && !outcome.errors.isEmpty, "\(nothing): \(outcome)")
                }
                #expect(try await world.outside("keys") == "a/x\nb//x\n")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: withProperties)
        func accessAndTagsAreShownAndReplaced(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("a", in: world)
                _ = try await output("acl set @a public-read", in: world)
                #expect(try await output("acl get @a", in: world).contains("READ") || provider == .oss)
                if provider == .oss { #expect(try await output("acl get @a", in: world) == "acl: public-read\n") }
                _ = try await output("tag set @a one=1 two=2=2", in: world)
                _ = try await output("tag set @a one=3", in: world)
                #expect(try await output("tag get @a", in: world) == "one=3\ntwo=2=2\n")
                _ = try await output("tag rm @a one", in: world)
                #expect(try await output("tag get @a", in: world) == "two=2=2\n")
                _ = try await output("tag rm @a", in: world)
                #expect(try await output("tag get @a", in: world) == "")
                for wrong in ["acl set @a", "acl set @a --grant user=READ", "tag set @a novalue", "tag get @none"] {
                    let outcome = try await run(wrong, in: world)
                    #expect(outcome.status != 0 && !outcome.errors.isEmpty, "\(wrong): \(outcome)")
                }
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func classesChangeAndArchivedObjectsAreAskedFor() async throws {
            let classes = [Provider.s3: "GLACIER", .oss: "Archive", .cos: "ARCHIVE"]
            for (provider, archive) in classes {
                try await provider.withWorld { world in
                    try await store("a", in: world)
                    _ = try await output("class @a \(archive)", in: world)
                    #expect(try await output("class @a", in: world) == "\(archive)\n", "\(provider)")
                    let asked = try await output("restore @a --days 2", in: world)
                    #expect(asked.hasPrefix("ongoing") || asked.hasPrefix("readable"), "\(provider): \(asked)")
                    let wrong = try await run("class @a NoSuchClass", in: world)
                    #expect(wrong.status == 1 && wrong.errors.contains(archive), "\(provider): \(wrong)")
                }
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aCopyTakesAsLongAsTheStoreNeedsForIt() async throws {
            try await withStore { world, server in
                try await store("a", in: world)
                try await server.setFaults("op=CopyObject,kind=latency:9s")
                for command in [["cp", "s3://pail/a", "s3://pail/b"], ["class", "s3://pail/a", "GLACIER"]] {
                    let outcome = try await world.pailfs(command + ["-o", world.options(["timeout=1"])])
                    #expect(outcome.succeeded, "\(command): \(outcome)")
                }
                try await server.setFaults()
                #expect(try await world.outside("keys") == "a\nb\n")
            }
        }

        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo])
        func aPresignedURLServesTheObjectToAnybody(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("some/key", in: world)
                let url = try await output("presign @some/key --expires 5m", in: world)
                // curl(1) knows every name below localhost for this machine.
                let address = url.trimmingCharacters(in: .newlines)
                #expect(try await world.sh("curl -sS --fail '\(address)'") == "content")
                let missing = try await run("presign @none", in: world)
                #expect(missing.status == 1, "\(missing)")
                // Amazon's and Alibaba's signatures have an end (X-Amz-Expires, x-oss-expires); the others' have not.
                let month = try await run("presign @some/key --expires 30d", in: world)
                let isRefused = provider == .s3 || provider == .oss
                #expect(month.succeeded == !isRefused && (!isRefused || month.errors.contains("7 days")), "\(month)")
            }
        }

        /// What such a URL can say differs by store; what it cannot is named.
        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo])
        func aPresignedURLCanSetHeadersProcessAndStore(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try await store("some/key", in: world)
                let saving = "content-disposition: attachment; filename=\"a b.txt\""
                let named = try await url(["--header", saving], in: world)
                let name = provider == .kodo ? "filename*=utf-8''a%20b.txt" : "filename=\"a b.txt\""
                #expect(try await headers(of: named, in: world).contains(name))
                let typed = try await presign(["--header", "content-type: text/x-own"], in: world)
                if provider == .kodo {
                    #expect(typed.status == 1 && typed.errors.contains("attachment"), "\(typed)")
                } else {
                    let answer = try await headers(of: typed.output.trimmingCharacters(in: .newlines), in: world)
                    #expect(answer.lowercased().contains("content-type: text/x-own"), "\(answer)")
                }
                let words = ["image/resize,w_200", "imageMogr2/thumbnail/!50p", "ci-process=snapshot&time=1"]
                for word in provider == .cos ? words.dropFirst(1) : words.dropLast(2) {
                    let processed = try await presign(["--process", word], in: world)
                    if provider == .s3 {
                        #expect(processed.status == 1 && processed.errors.contains("processing"), "\(processed)")
                        continue
                    }
                    let address = processed.output.trimmingCharacters(in: .newlines)
                    // pailstore makes nothing of objects, and says so at OSS once the signature was right.
                    let status = try await world.sh("curl -sS -o /dev/null -w '%{http_code}' '\(address)'")
                    #expect(status == (provider == .oss ? "501" : "200"), "\(word)")
                }
                let storing = try await presign(["--put"], key: "new", in: world)
                guard provider != .kodo else {
                    #expect(storing.status == 1 && storing.errors.contains("upload"), "\(storing)")
                    return
                }
                let address = storing.output.trimmingCharacters(in: .newlines)
                _ = try await world.sh("printf anew >$T/new; curl -sS --fail -T $T/new '\(address)'")
                #expect(try await world.outside("get", "new") == "anew")
            }
        }

        @Test(
            .timeLimit(.minutes(5)),
            arguments: [
                (["--put", "--process", "x"], "leave them out"), (["--header", "x-own: 1"], "content-disposition"),
                (["--header", "content-type"], "name: value"), (["--expires", "soon"], "90s"),
            ])
        func whatAPresignedURLCannotHaveIsNamed(_ options: [String], _ remedy: String) async throws {
            try await withStore { world, _ in
                try await store("some/key", in: world)
                let refused = try await presign(options, in: world)
                #expect(refused.status == 1 && refused.output.isEmpty && refused.errors.contains(remedy), "\(refused)")
            }
        }

        private func presign(_ options: [String], key: String = "some/key", in world: World) async throws -> Outcome {
            try await world.pailfs(["presign", "\(world.bucket.url)/\(key)", "-o", world.options([])] + options)
        }

        private func url(_ options: [String], in world: World) async throws -> String {
            let outcome = try await presign(options, in: world)
            #expect(outcome.succeeded, "\(outcome)")
            return outcome.output.trimmingCharacters(in: .newlines)
        }

        private func headers(of url: String, in world: World) async throws -> String {
            try await world.sh("curl -sS --fail -o /dev/null -D - '\(url)'")
        }

        @Test(.timeLimit(.minutes(5)))
        func aPreflightSaysWhatTheRulesSay() async throws {
            try await withStore { world, _ in
                try await store("a", in: world)
                let refused = try await run("preflight @a --origin https://a.example", in: world)
                #expect(refused.status == 1 && refused.errors.contains("CORS"), "\(refused)")
                try await world.python(
                    """
                    import boto3, os
                    from botocore.config import Config
                    client = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name="us-east-1",
                                          config=Config(s3={"addressing_style": "path"}))
                    client.put_bucket_cors(Bucket=os.environ["BUCKET"], CORSConfiguration={"CORSRules": [
                        {"AllowedOrigins": ["https://b.example"], "AllowedMethods": ["GET", "PUT"]},
                        {"ID": "pictures", "AllowedOrigins": ["https://*.example"], "AllowedMethods": ["GET"]}]})
                    """)
                let allowed = try await output("preflight @a --origin https://a.example", in: world)
                #expect(allowed.lowercased().contains("access-control-allow-origin"), "\(allowed)")
                let rule = "rule: 2 of 2 (pictures), origins https://*.example, methods GET, headers none\n"
                #expect(allowed.hasSuffix(rule), "\(allowed)")
                let put = try await run("preflight @a --origin https://a.example --method put", in: world)
                let reasons = "rule 1 does not allow the origin, rule 2 (pictures) does not allow the method PUT;"
                #expect(put.status == 1 && put.errors.contains(reasons), "\(put)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func unfinishedUploadsAreListedAndAbortedByAge() async throws {
            try await withStore { world, _ in
                try await world.python(
                    """
                    import boto3, os
                    from botocore.config import Config
                    client = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name="us-east-1",
                                          config=Config(s3={"addressing_style": "path"}))
                    upload = client.create_multipart_upload(Bucket=os.environ["BUCKET"], Key="big")
                    client.upload_part(Bucket=os.environ["BUCKET"], Key="big", UploadId=upload["UploadId"],
                                       PartNumber=1, Body=b"12345")
                    """)
                let line = try await output("uploads list @", in: world).split(whereSeparator: \.isWhitespace)
                #expect(line.count == 4 && line[1] == "5" && line[3] == "big", "\(line)")
                let parts = try await output("uploads list @ --parts", in: world).split(separator: "\n")
                #expect(parts.count == 2 && parts.last?.hasPrefix("  1  5  ") == true, "\(parts)")
                #expect(try await output("uploads abort @ --older-than 1d", in: world) == "")
                #expect(try await output("uploads abort @ --older-than 0s", in: world).hasSuffix("big\n"))
                #expect(try await output("uploads list @", in: world) == "")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func uploadsOfOtherKeysThatStartAlikeAreLeft() async throws {
            try await withStore { world, _ in
                try await world.python(
                    """
                    import boto3, os
                    from botocore.config import Config
                    client = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name="us-east-1",
                                          config=Config(s3={"addressing_style": "path"}))
                    for key in ["photos", "photos/a", "photos-2025/big.tar"]:
                        client.create_multipart_upload(Bucket=os.environ["BUCKET"], Key=key)
                    """)
                let listed = try await output("uploads list @photos", in: world).split(separator: "\n")
                #expect(listed.count == 2 && listed.allSatisfy { !$0.hasSuffix("big.tar") }, "\(listed)")
                let id = try #require(listed.first?.split(separator: " ").dropLast().last)
                #expect(try await output("uploads abort @photos --id \(id)", in: world).contains("  \(id)  "))
                let again = try await run("uploads abort @photos --id \(id)", in: world)
                #expect(again.status == 1 && again.errors.contains("no unfinished upload"), "\(again)")
                for options in ["", " --id \(id) --older-than 1d"] {
                    let unclear = try await run("uploads abort @photos" + options, in: world)
                    #expect(unclear.status == 1 && unclear.errors.contains("--older-than"), "\(unclear)")
                }
                let aborted = try await output("uploads abort @photos --older-than 0s", in: world)
                #expect(aborted.split(separator: "\n").count == 1, "\(aborted)")
                #expect(try await output("uploads list @", in: world).hasSuffix("  photos-2025/big.tar\n"))
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func theDoctorFindsNothingWrongAndLeavesNothing() async throws {
            for provider in [Provider.s3, .oss, .cos, .kodo, .cssp] {
                try await provider.withWorld { world in
                    let report = try await output("doctor @", in: world)
                    #expect(!report.contains("FAILED"), "\(provider): \(report)")
                    for check in [
                        "credentials found", "clock", "cache directory", "list", "put", "get", "copy",
                        "multipart upload", "delete",
                    ] {
                        #expect(report.contains(check), "\(provider): \(report)")
                    }
                    #expect(try await world.outside("keys") == "", "\(provider)")
                    #expect(try await output("doctor @ --read-only", in: world).contains("skipped  writing"))
                }
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func theDoctorNamesWhatIsWrong() async throws {
            try await withStore { world, store in
                try await store.setFaults("kind=clock:2h")
                let late = try await world.pailfs(["doctor", "s3://pail", "-o", world.options([])])
                #expect(late.status == 1 && late.output.contains("behind the store's; set it"), "\(late)")
                #expect(late.output.contains("PAILFS_ACCESS_KEY_ID, key ID pailstore\n"), "\(late)")
                try await store.setFaults()
                let wrongKey = try await world.pailfs(
                    ["doctor", "s3://pail", "-o", world.options([])],
                    changing: ["PAILFS_SECRET_ACCESS_KEY": "wrong"])
                #expect(wrongKey.status == 1)
                #expect(wrongKey.output.contains("FAILED"), "\(wrongKey)")
                #expect(wrongKey.output.contains("PAILFS_SECRET_ACCESS_KEY"), "\(wrongKey)")
                let wrongBucket = try await run("doctor s3://no-such-pail", in: world)
                #expect(wrongBucket.status == 1)
                #expect(wrongBucket.output.contains("no-such-pail does not exist"), "\(wrongBucket)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func aFileOfOptionsIsTakenByMountsAndShown() async throws {
            try await withStore { world, _ in
                try FileManager.default.createDirectory(
                    atPath: world.scratch.path("home"), withIntermediateDirectories: true)
                let file = world.scratch.path("home/config")
                try "file-mode = 600\n[s3://pail]\nro\n[s3://other]\nttl = 1\n"
                    .write(toFile: file, atomically: false, encoding: .utf8)
                try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
                try await store("a", in: world)
                let shown = try await world.pailfs(["config", "show", "s3://pail", "-o", "ttl=7"])
                let words = shown.output.split(whereSeparator: \.isWhitespace)
                #expect(words == ["ro=yes", "\(file):3", "ttl=7", "command", "line", "file-mode=600", "\(file):1"])
                try await world.mount()
                #expect(try await world.sh("stat -c %a a") == "600\n")
                #expect(try await world.attempt("touch b").errors.contains("Read-only"))
                try await world.unmount()
                try "ttl = soon\n".write(toFile: file, atomically: false, encoding: .utf8)
                let refused = try await world.pailfs(
                    ["mount", world.bucket.url, world.mountpoint, "-o", world.options([])])
                #expect(refused.status == 1 && refused.errors.contains("\(file):1: the option ttl"), "\(refused)")
            }
        }
    }
}
