import Foundation
import Testing

extension RealMounts {
    /// The output of the commands on objects with `--json`: every line is one object, and the manual has its fields.
    @Suite struct ObjectJSON {
        private static func objects(_ text: String) throws -> [[String: Any]] {
            try text.split(separator: "\n").map { line in
                try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            }
        }

        /// The names in the entry of a command below OBJECTS AS JSON in pailfs(1).
        private static func documented(_ command: String) throws -> Set<Substring> {
            let page = try String(contentsOfFile: "\(Programs.root)/man/pailfs.1", encoding: .utf8)
            let section = try #require(page.components(separatedBy: ".Sh OBJECTS AS JSON\n").dropFirst().first)
            let entry = try #require(section.components(separatedBy: ".It Cm \(command)\n").dropFirst().first)
            let lines = entry.components(separatedBy: "\n").prefix { !$0.hasPrefix(".It ") && $0 != ".El" }
            return Set(lines.joined(separator: " ").split { " ,".contains($0) })
        }

        private func print(_ arguments: String..., in world: World) async throws -> [[String: Any]] {
            let outcome = try await world.pailfs(arguments + ["--json", "-o", world.options([])])
            guard outcome.succeeded else { throw ChildFailed(command: "pailfs \(arguments)", outcome: outcome) }
            let objects = try Self.objects(outcome.output)
            let command = arguments.prefix { $0.allSatisfy(\.isLetter) }.joined(separator: " ")
            for name in objects.flatMap(\.keys) {
                #expect(try Self.documented(command).contains(Substring(name)), "\(command): \(name)")
            }
            return objects
        }

        @Test(.timeLimit(.minutes(5)), arguments: [Provider.s3, .oss, .cos, .kodo, .cssp])
        func keysAndDirectoriesAreObjectsOfOneLine(_ provider: Provider) async throws {
            try await provider.withWorld { world in
                try "content".write(toFile: world.scratch.path("file"), atomically: true, encoding: .utf8)
                for key in ["a", "d/x"] { try await world.outside("put", key, world.scratch.path("file")) }
                let listed = try await print("ls", world.bucket.url, in: world)
                #expect(listed.map { $0["key"] as? String } == ["a", "d/"])
                #expect(listed.first?["bytes"] as? Int == 7 && listed.last?["isPrefix"] as? Bool == true)
                let used = try await print("du", world.bucket.url, in: world)
                #expect(used.map { $0["objects"] as? Int } == [1, 2], "\(used)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func uploadsHaveClassInitiatorAndParts() async throws {
            try await withStore { world, _ in
                try await world.python(
                    """
                    import boto3, os
                    from botocore.config import Config
                    client = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], region_name="us-east-1",
                                          config=Config(s3={"addressing_style": "path"}))
                    place = {"Bucket": os.environ["BUCKET"], "Key": "photos-2025/big"}
                    upload = client.create_multipart_upload(StorageClass="STANDARD_IA", **place)
                    client.upload_part(UploadId=upload["UploadId"], PartNumber=1, Body=b"12345", **place)
                    """)
                let upload = try #require(try await print("uploads", "list", "s3://pail", "--parts", in: world).first)
                #expect(upload["key"] as? String == "photos-2025/big" && upload["bytes"] as? Int == 5, "\(upload)")
                let storageClass = try #require(upload["storageClass"] as? String)
                let initiator = try #require(upload["initiator"] as? String)
                let parts = try #require(upload["parts"] as? [[String: Any]])
                #expect(storageClass == "STANDARD_IA" && parts.count == 1 && parts.first?["number"] as? Int == 1)
                let text = try await world.pailfs(["uploads", "list", "-l", "s3://pail", "-o", world.options([])])
                #expect(text.output.hasSuffix("  STANDARD_IA  \(initiator)  photos-2025/big\n"), "\(text)")

                // The start of a key is enough to list an upload, and not to abort it.
                #expect(try await print("uploads", "list", "s3://pail/phot", in: world).count == 1)
                let options = ["--older-than", "0s", "-o", world.options([])]
                #expect(try await world.pailfs(["uploads", "abort", "s3://pail/phot"] + options).output == "")
                #expect(try await print("uploads", "list", "s3://pail", in: world).count == 1)
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func theDoctorPrintsVerdicts() async throws {
            try await withStore { world, store in
                let report = try await print("doctor", "s3://pail", "--read-only", in: world)
                for (check, verdict) in [("list", "ok"), ("writing", "skipped")] {
                    let line = report.first { $0["check"] as? String == check }
                    #expect(line?["verdict"] as? String == verdict, "\(report)")
                }
                try await store.setFaults("kind=clock:2h")
                let late = try await world.pailfs(["doctor", "s3://pail", "--json", "-o", world.options([])])
                let failed = try Self.objects(late.output).filter { $0["verdict"] as? String == "failed" }
                #expect(late.status == 1 && !failed.isEmpty && late.errors.contains("checks failed"), "\(late)")
            }
        }

        @Test(.timeLimit(.minutes(5)))
        func anObjectAndAnAccountAreOneObjectEach() async throws {
            try await withStore { world, _ in
                try "content".write(toFile: world.scratch.path("file"), atomically: true, encoding: .utf8)
                try await world.outside("put", "a", world.scratch.path("file"))
                for (url, field) in [("s3://pail/a", "etag"), ("s3://", "buckets")] {
                    let outcome = try await world.pailfs(["stat", "--json", url, "-o", world.options([])])
                    let object = try #require(
                        try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
                    #expect(object[field] != nil, "\(outcome)")
                    let names = try Self.documented("stat")
                    for name in object.keys { #expect(names.contains(Substring(name)), "\(name)") }
                }
            }
        }
    }
}
